#include "service/store/keyspace/rules/rule_bindings.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/slices.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;

SharedRule Rule(const std::string& name) {
  return MakeRefCounted<BoundRule>(*UpdateRule::Create({.name = name}));
}

std::string RuleOf(const RuleBindings& bindings, absl::string_view key) {
  return (**bindings.Find({key}, [] { return absl::OkStatus(); })->front())
      .spec()
      .name;
}

// Clients go by names which rules take slices, servers by what rules compute.
TEST(RuleBindingsTest, RulesThatTakeSumsAreThoseThatTakeWholeKeys) {
  for (const char* const name :
       {"assign", "accumulate", "average", "adam", "sgd", "sgld",
        "groupadagrad", "adafactor", "lars", "lamb", "lans", "lion"}) {
    EXPECT_EQ(Rule(name)->takes_sums(), NeedsWholeKeys(name)) << name;
  }
}

TEST(RuleBindingsTest, LongSearchEndsWhenNobodyWantsIt) {
  RuleBindings bindings(Rule("assign"));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_OK(bindings.Set(absl::StrCat("*", i), Rule("sgd")));
  }
  const std::vector<absl::string_view> keys(100, "key");

  EXPECT_THAT(bindings.Find(keys, [] { return absl::CancelledError("gone"); }),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST(RuleBindingsTest, SettingAPatternAgainKeepsItsPlace) {
  RuleBindings bindings(Rule("assign"));
  ASSERT_OK(bindings.Set("fc*", Rule("sgd")));
  ASSERT_OK(bindings.Set("*bias", Rule("adam")));

  ASSERT_OK(bindings.Set("fc*", Rule("accumulate")));

  EXPECT_EQ(RuleOf(bindings, "fc.bias"), "adam");
  EXPECT_EQ(RuleOf(bindings, "fc.weight"), "accumulate");
}

TEST(RuleBindingsTest, NumberOfPatternsIsBounded) {
  RuleBindings bindings(Rule("assign"));
  for (size_t i = 0; i < kMaxPatterns; ++i) {
    ASSERT_OK(bindings.Set(absl::StrCat("p", i), Rule("sgd")));
  }

  EXPECT_THAT(bindings.Set("one more", Rule("sgd")),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_OK(bindings.Set("p7", Rule("adam")));
}

}  // namespace
}  // namespace tensorkv
