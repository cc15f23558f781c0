#include "tests/history/history_checker.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Kind = HistoryEvent::Kind;

// Times of these tests are small numbers.
HistoryEvent Push(int begin, int end, Version version, int64_t amount) {
  return {.kind = Kind::kPush,
          .begin = absl::Seconds(begin),
          .end = absl::Seconds(end),
          .key = "w",
          .version = version,
          .amount = amount};
}

HistoryEvent Pull(int begin, int end, Version version, int64_t value) {
  return {.kind = Kind::kPull,
          .begin = absl::Seconds(begin),
          .end = absl::Seconds(end),
          .key = "w",
          .version = version,
          .value = value};
}

HistoryEvent StepOf(int worker, Step step, int begin, int end) {
  return {.kind = Kind::kStep,
          .client = worker,
          .begin = absl::Seconds(begin),
          .end = absl::Seconds(end),
          .step = step};
}

HistoryEvent BarrierOf(int worker, int begin, int end) {
  return {.kind = Kind::kBarrier,
          .client = worker,
          .begin = absl::Seconds(begin),
          .end = absl::Seconds(end),
          .barrier = "b"};
}

TEST(OrderViolationsTest, HistoryOfAGoodStoreHasNone) {
  EXPECT_THAT(OrderViolations({Push(1, 4, 3, 10), Push(2, 3, 2, 1),
                               Pull(2, 5, 1, 0), Pull(5, 6, 3, 11)}),
              IsEmpty());
}

TEST(OrderViolationsTest, TwoPushesOfOneVersion) {
  EXPECT_THAT(OrderViolations({Push(1, 2, 2, 10), Push(1, 2, 2, 1)}),
              Contains(HasSubstr("another push made too")));
}

TEST(OrderViolationsTest, VersionThatNobodyMade) {
  EXPECT_THAT(OrderViolations({Push(1, 2, 2, 10), Push(3, 4, 4, 1)}),
              Contains(HasSubstr("2 pushes made the version 4")));
}

TEST(OrderViolationsTest, ValueThatIsNotTheSum) {
  EXPECT_THAT(OrderViolations({Push(1, 2, 2, 10), Pull(3, 4, 2, 20)}),
              Contains(HasSubstr("sum up to 10")));
}

TEST(OrderViolationsTest, PullOlderThanAPushThatHadEnded) {
  EXPECT_THAT(OrderViolations({Push(1, 2, 2, 10), Pull(3, 4, 1, 0)}),
              Contains(HasSubstr("after version 2 was there")));
}

TEST(OrderViolationsTest, PullOlderThanAPullThatHadEnded) {
  EXPECT_THAT(
      OrderViolations({Push(1, 9, 2, 10), Pull(2, 3, 2, 10), Pull(4, 5, 1, 0)}),
      Contains(HasSubstr("after version 2 was there")));
}

TEST(OrderViolationsTest, PushThatWentBack) {
  EXPECT_THAT(OrderViolations({Push(1, 2, 3, 10), Push(3, 4, 2, 1)}),
              Not(IsEmpty()));
}

TEST(OrderViolationsTest, TornValue) {
  HistoryEvent torn = Pull(3, 4, 1, 0);
  torn.is_torn = true;

  EXPECT_THAT(OrderViolations({torn}), Contains(HasSubstr("torn")));
}

TEST(StalenessViolationsTest, WorkerWithinTheBoundHasNone) {
  EXPECT_THAT(StalenessViolations({StepOf(0, 1, 0, 1), StepOf(0, 2, 1, 2),
                                   StepOf(0, 3, 2, 5), StepOf(1, 1, 4, 6)},
                                  2, 1),
              IsEmpty());
}

TEST(StalenessViolationsTest, WorkerTooFarAhead) {
  EXPECT_THAT(StalenessViolations({StepOf(0, 1, 0, 1), StepOf(0, 2, 1, 2),
                                   StepOf(0, 3, 2, 3), StepOf(1, 1, 4, 6)},
                                  2, 1),
              ElementsAre(HasSubstr("before worker 1 had begun step 1")));
}

HistoryEvent RoundOf(int worker, Step step, int begin, int end, int64_t value) {
  return {.kind = Kind::kRound,
          .client = worker,
          .begin = absl::Seconds(begin),
          .end = absl::Seconds(end),
          .key = "w",
          .amount = 10 + worker,
          .value = value,
          .step = step};
}

TEST(RoundViolationsTest, RoundsOfAGoodStoreHaveNone) {
  EXPECT_THAT(
      RoundViolations({RoundOf(0, 1, 1, 3, 21), RoundOf(1, 1, 2, 4, 21),
                       RoundOf(0, 2, 4, 6, 42), RoundOf(1, 2, 5, 6, 42)},
                      2),
      IsEmpty());
}

TEST(RoundViolationsTest, ContributionThatIsLostOrCountsTwice) {
  EXPECT_THAT(
      RoundViolations({RoundOf(0, 1, 1, 3, 11), RoundOf(1, 1, 1, 3, 31)}, 2),
      ElementsAre(HasSubstr("sum up to 21"), HasSubstr("sum up to 21")));
}

TEST(RoundViolationsTest, WorkerWhoDidNotWait) {
  EXPECT_THAT(
      RoundViolations({RoundOf(0, 1, 1, 2, 21), RoundOf(1, 1, 3, 4, 21)}, 2),
      ElementsAre(HasSubstr("before all had contributed")));
}

TEST(BarrierViolationsTest, BarrierThatAllCameToHasNone) {
  EXPECT_THAT(BarrierViolations({BarrierOf(0, 1, 5), BarrierOf(1, 4, 6)}, 2),
              IsEmpty());
}

TEST(BarrierViolationsTest, WorkerWhoLeftEarly) {
  EXPECT_THAT(BarrierViolations({BarrierOf(0, 1, 3), BarrierOf(1, 4, 6)}, 2),
              Contains(HasSubstr("worker 0")));
}

TEST(BarrierViolationsTest, WorkerWhoNeverCame) {
  EXPECT_THAT(BarrierViolations({BarrierOf(0, 1, 3)}, 2), Not(IsEmpty()));
}

// Reads of a key whose sum after each step is the step times 10.
std::vector<std::string> ViolationsOfRead(Step step, int64_t value) {
  return RestoredRoundViolations(
      {{.kind = Kind::kRound, .key = "w", .value = value, .step = step}},
      /*num_steps=*/3,
      [](const std::string&, Step s) { return static_cast<int64_t>(10 * s); });
}

TEST(RestoredRoundViolationsTest, ReadsAreSumsAfterTheirStepOrALaterOne) {
  EXPECT_THAT(ViolationsOfRead(2, 20), IsEmpty());
  EXPECT_THAT(ViolationsOfRead(2, 30), IsEmpty());
  EXPECT_THAT(ViolationsOfRead(2, 10),
              ElementsAre(HasSubstr("the sum after step 1")));
  EXPECT_THAT(ViolationsOfRead(2, 25), ElementsAre(HasSubstr("no step")));
  EXPECT_THAT(ViolationsOfRead(2, 40), ElementsAre(HasSubstr("no step")));
}

}  // namespace
}  // namespace tensorkv::testing
