#include "kernels/schedule.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/rule_spec.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::absl::StatusCode;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

// The schedule in the form of a rule's text.
absl::StatusOr<Schedule> Parsed(const std::string& text) {
  return Schedule::Create(
      ParseRuleSpec("sgd(schedule=" + text + ")")->schedule);
}

struct Case {
  const char* schedule;
  double base;
  uint64_t t;
  double rate;
};

class ScheduleTest : public ::testing::TestWithParam<Case> {};

TEST_P(ScheduleTest, GivesTheRateOfTheUpdate) {
  const Case& c = GetParam();

  EXPECT_NEAR(Parsed(c.schedule)->RateAt(c.base, c.t), c.rate, 1e-12)
      << c.schedule << " at " << c.t;
}

constexpr char kFactor[] =
    "factor(updates_per_step=100, final_learning_rate=1e-4, warmup_updates=20,"
    " warmup_learning_rate=0.1, warmup_is_constant=1)";
constexpr char kMultiFactor[] =
    "multi_factor(steps=[15, 25], warmup_updates=10,"
    " warmup_learning_rate=0.05)";
constexpr char kPolynomial[] =
    "polynomial(max_updates=1000, warmup_updates=100)";
constexpr char kCosine[] = "cosine(max_updates=1000, final_learning_rate=0.1)";
constexpr char kOneCycle[] = "one_cycle(max_updates=1000)";

INSTANTIATE_TEST_SUITE_P(
    MxNet, ScheduleTest,
    ::testing::Values(
        Case{kFactor, 1, 0, 0.1}, Case{kFactor, 1, 10, 0.1},
        Case{kFactor, 1, 21, 1}, Case{kFactor, 1, 101, 0.1},
        Case{kFactor, 1, 201, 0.01}, Case{kFactor, 1, 1000, 1e-4},
        Case{kMultiFactor, 0.1, 0, 0.05}, Case{kMultiFactor, 0.1, 5, 0.075},
        Case{kMultiFactor, 0.1, 15, 0.1}, Case{kMultiFactor, 0.1, 16, 0.01},
        Case{kMultiFactor, 0.1, 26, 0.001}, Case{kMultiFactor, 0.1, 100, 0.001},
        Case{kPolynomial, 3, 0, 0}, Case{kPolynomial, 3, 50, 1.5},
        Case{kPolynomial, 3, 100, 3}, Case{kPolynomial, 3, 1000, 0},
        Case{kPolynomial, 3, 5000, 0}, Case{kCosine, 3, 0, 3},
        Case{kCosine, 3, 500, 1.55}, Case{kCosine, 3, 1000, 0.1}));

INSTANTIATE_TEST_SUITE_P(
    Others, ScheduleTest,
    ::testing::Values(Case{"constant", 3, 7, 3},
                      Case{"constant(warmup_updates=10)", 3, 5, 1.5},
                      Case{"constant(warmup_updates=10)", 3, 10, 3},
                      Case{kOneCycle, 1, 0, 0.04},
                      Case{kOneCycle, 1, 150, 0.52}, Case{kOneCycle, 1, 300, 1},
                      Case{kOneCycle, 1, 1000, 4e-6},
                      Case{kOneCycle, 1, 9000, 4e-6}));

struct BadCase {
  const char* schedule;
  const char* message;
};

class BadScheduleTest : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadScheduleTest, IsInvalid) {
  EXPECT_THAT(
      Parsed(GetParam().schedule),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    , BadScheduleTest,
    ::testing::Values(
        BadCase{"cosin",
                "expected one of constant, factor, multi_factor, "
                "polynomial, cosine, one_cycle, got \"cosin\""},
        BadCase{"cosine(power=2)",
                "cosine: expected hyperparameters out of "
                "max_updates, final_learning_rate, "},
        BadCase{"cosine(max_updates=0)", "a whole number from 1"},
        BadCase{"cosine(max_updates=1.5)", "a whole number from 1"},
        BadCase{"cosine(max_updates=nan)", "a whole number from 1"},
        BadCase{"cosine(final_learning_rate=inf)", "must be finite, got inf"},
        BadCase{"factor(factor=0)", "must be finite and > 0"},
        BadCase{"constant(warmup_is_constant=2)", "must be 0 or 1"},
        BadCase{"cosine(max_updates=9, warmup_updates=9)",
                "warmup_updates must be less than max_updates, 9, got 9"},
        BadCase{"multi_factor(steps=[5, 5])", "expected steps that increase"},
        BadCase{"cosine(steps=[5])", "cosine: expected no steps, got some"}));

}  // namespace
}  // namespace tensorkv
