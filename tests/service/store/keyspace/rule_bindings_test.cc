#include "service/store/keyspace/rule_bindings.h"

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

TEST(RuleBindingsTest, FindsTheRulesOfManyKeys) {
  RuleBindings bindings(Rule("assign"));
  ASSERT_OK(bindings.Set("*bias", Rule("sgd")));

  const auto rules =
      bindings.Find({"a.bias", "b", "c.bias"}, [] { return absl::OkStatus(); });

  ASSERT_EQ(rules->size(), 3u);
  EXPECT_EQ((**(*rules)[0]).spec().name, "sgd");
  EXPECT_EQ((**(*rules)[1]).spec().name, "assign");
  EXPECT_EQ((**(*rules)[2]).spec().name, "sgd");
}

TEST(RuleBindingsTest, SlicesHaveTheRuleOfTheirKey) {
  RuleBindings bindings(Rule("assign"));
  ASSERT_OK(bindings.Set("w.*", Rule("sgd")));

  EXPECT_EQ(RuleOf(bindings, SliceNameOf("w.a", 0, 2, {8})), "sgd");
  EXPECT_EQ(RuleOf(bindings, SliceNameOf("v", 0, 2, {8})), "assign");
}

// Clients go by names which rules take slices, servers by what rules compute.
TEST(RuleBindingsTest, RulesThatTakeSumsAreThoseThatTakeWholeKeys) {
  for (const char* const name :
       {"assign", "accumulate", "average", "adam", "sgd", "sgld",
        "groupadagrad", "adafactor", "lars", "lamb", "lans", "lion"}) {
    EXPECT_EQ(Rule(name)->takes_sums(), TakesWholeKeys(name)) << name;
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

TEST(RuleBindingsTest, DefaultGovernsWhatNoPatternMatches) {
  RuleBindings bindings(Rule("assign"));
  ASSERT_OK(bindings.Set("*.bias", Rule("sgd")));

  EXPECT_EQ(RuleOf(bindings, "fc.bias"), "sgd");
  EXPECT_EQ(RuleOf(bindings, "fc.weight"), "assign");
}

TEST(RuleBindingsTest, PatternAddedLastCounts) {
  RuleBindings bindings(Rule("assign"));
  ASSERT_OK(bindings.Set("fc*", Rule("sgd")));
  ASSERT_OK(bindings.Set("*bias", Rule("adam")));

  EXPECT_EQ(RuleOf(bindings, "fc.bias"), "adam");
}

TEST(RuleBindingsTest, SettingAPatternAgainKeepsItsPlace) {
  RuleBindings bindings(Rule("assign"));
  ASSERT_OK(bindings.Set("fc*", Rule("sgd")));
  ASSERT_OK(bindings.Set("*bias", Rule("adam")));

  ASSERT_OK(bindings.Set("fc*", Rule("accumulate")));

  EXPECT_EQ(RuleOf(bindings, "fc.bias"), "adam");
  EXPECT_EQ(RuleOf(bindings, "fc.weight"), "accumulate");
}

TEST(RuleBindingsTest, EmptyPatternSetsTheDefault) {
  RuleBindings bindings(Rule("assign"));

  ASSERT_OK(bindings.Set("", Rule("adam")));

  EXPECT_EQ(RuleOf(bindings, "anything"), "adam");
  EXPECT_EQ(bindings.List().size(), 1u);
}

TEST(RuleBindingsTest, GetWantsTheExactPattern) {
  RuleBindings bindings(Rule("assign"));
  ASSERT_OK(bindings.Set("fc*", Rule("sgd")));

  EXPECT_EQ(bindings.Get("fc*")->spec().name, "sgd");
  EXPECT_EQ(bindings.Get("")->spec().name, "assign");
  EXPECT_EQ(bindings.Get("fc1"), nullptr);
}

TEST(RuleBindingsTest, ListIsInOrderOfPrecedence) {
  RuleBindings bindings(Rule("assign"));
  ASSERT_OK(bindings.Set("a", Rule("sgd")));
  ASSERT_OK(bindings.Set("b", Rule("adam")));

  const std::vector<RuleBinding> list = bindings.List();

  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].key_pattern, "b");
  EXPECT_EQ(list[1].key_pattern, "a");
  EXPECT_EQ(list[2].key_pattern, "");
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
