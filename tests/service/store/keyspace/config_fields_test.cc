#include "service/store/keyspace/config_fields.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A configuration that differs in one field from the default.
struct Other {
  std::string field;
  bool may_change;
  NamespaceConfig config;
};

std::vector<Other> Others() {
  return {
      {"mode", false, {.mode = Mode::kSync}},
      {"num_workers", false, {.num_workers = 1}},
      {"max_workers", false, {.max_workers = 1}},
      {"rule", false, {.rule = {.name = "sgd"}}},
      {"budget_bytes", true, {.budget_bytes = 1}},
      {"staleness", false, {.staleness = 1}},
      {"on_worker_loss", true, {.on_worker_loss = OnWorkerLoss::kContinue}},
      {"rescale_partial_rounds", true, {.rescale_partial_rounds = true}},
      {"quorum", true, {.quorum = 1}},
      {"quorum_grace", true, {.quorum_grace = absl::Seconds(1)}},
      {"max_open_rounds", false, {.max_open_rounds = 1}},
      {"gradient_guard.on_non_finite",
       true,
       {.gradient_guard = {.on_non_finite = OnNonFinite::kSkip}}},
      {"gradient_guard.max_norm", true, {.gradient_guard = {.max_norm = 0.1}}},
      {"gradient_guard.on_large_norm",
       true,
       {.gradient_guard = {.on_large_norm = OnLargeNorm::kRefuse}}},
      {"gradient_guard.max_call_norm",
       true,
       {.gradient_guard = {.max_call_norm = 1}}},
      {"aggregation", false, {.aggregation = Aggregation::kMedian}},
      {"trim_fraction", false, {.trim_fraction = 0.25}},
      {"sum_order", false, {.sum_order = SumOrder::kArrival}},
      {"mirrored", false, {.mirrored = true}},
      {"round_timeout", true, {.round_timeout = absl::Seconds(1)}},
      {"late", false, {.late = Late::kCarry}},
      {"staleness_decay", false, {.staleness_decay = 0.5}},
  };
}

absl::Status Compare(const NamespaceConfig& actual, ConfigFields which) {
  return CheckSameConfig("namespace \"n\"", "n", NamespaceConfig(), actual,
                         which);
}

TEST(ConfigFieldsTest, EveryFieldThatDiffersIsNamed) {
  EXPECT_OK(Compare({}, ConfigFields::kAll));
  for (const Other& other : Others()) {
    EXPECT_FALSE(other.config == NamespaceConfig());
    const absl::Status status = Compare(other.config, ConfigFields::kAll);
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr(absl::StrCat("namespace \"n\": ",
                                                other.field, ": expected "))));
    EXPECT_THAT(status, HasReason(Reason::kExistsDifferently));
    EXPECT_THAT(status,
                HasReason(Reason::kExistsDifferently,
                          {{"namespace", "n"}, {"fields", other.field}}));
    EXPECT_EQ(Compare(other.config, ConfigFields::kFixed).ok(),
              other.may_change)
        << other.field;
  }
}

TEST(ConfigFieldsTest, DifferencesSayWhatIsThereAndWhatCame) {
  const NamespaceConfig there = {.mode = Mode::kSync,
                                 .rule = {.name = "sgd"},
                                 .quorum_grace = absl::Milliseconds(500),
                                 .trim_fraction = 0.1};

  EXPECT_EQ(CheckSameConfig("n", "n", there, {}, ConfigFields::kAll).message(),
            "n: mode: expected sync, got async; rule: expected \"sgd\", got "
            "\"assign\"; quorum_grace: expected 500ms, got 0; trim_fraction: "
            "expected 0.1, got 0");
}

TEST(ConfigFieldsTest, MasksNameWhatMayChange) {
  for (const Other& other : Others()) {
    const std::vector<std::string> mask = {other.field};
    EXPECT_EQ(CheckUpdateMask(mask).ok(), other.may_change) << other.field;
    NamespaceConfig config;
    CopyFields(mask, other.config, config);
    EXPECT_TRUE(config == other.config) << other.field;
    const std::vector<std::string> another = {
        other.field == "quorum" ? "quorum_grace" : "quorum"};
    config = {};
    CopyFields(another, other.config, config);
    EXPECT_TRUE(config == NamespaceConfig()) << other.field;
  }
  EXPECT_OK(CheckUpdateMask(std::vector<std::string>{"gradient_guard"}));
}

TEST(ConfigFieldsTest, MembersAreCopiedWithWhatTheyHave) {
  const GradientGuard guard = {.on_non_finite = OnNonFinite::kSkip,
                               .max_norm = 2,
                               .on_large_norm = OnLargeNorm::kRefuse,
                               .max_call_norm = 3};
  NamespaceConfig config = {.quorum = 1};

  CopyFields(std::vector<std::string>{"gradient_guard"},
             {.quorum = 2, .gradient_guard = guard}, config);

  EXPECT_TRUE(config.gradient_guard == guard);
  EXPECT_EQ(config.quorum, 1u);
}

TEST(ConfigFieldsTest, ManyWrongPathsAreCounted) {
  std::vector<std::string> mask(20, "x");
  mask.push_back("quorum");

  EXPECT_THAT(
      CheckUpdateMask(mask),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          AllOf(HasSubstr("(budget_bytes, on_worker_loss, "
                          "rescale_partial_rounds, quorum, "
                          "quorum_grace, gradient_guard, max_retained_bytes, "
                          "round_timeout)"),
                HasSubstr("got \"x\", \"x\""), HasSubstr(", 12 more"))));
}

}  // namespace
}  // namespace tensorkv
