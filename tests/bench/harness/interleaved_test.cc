#include "bench/harness/interleaved.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/harness/fake_load.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::FakeLoad;
using ::tensorkv::testing::FakeMachine;
using ::tensorkv::testing::StatusIs;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pair;

constexpr pid_t kServer = 7;

class InterleavedTest : public ::testing::Test {
 protected:
  // Every process takes CPU time as long as the time goes by.
  Clocks FakeClocks() {
    return {.steady_time = [this] { return machine_.now; },
            .cpu_time = [this](pid_t) { return machine_.now; }};
  }

  std::vector<absl::StatusOr<Measurement>> Measure(
      const std::vector<Load*>& loads, int repetitions = 5) {
    return MeasureInterleaved(
        loads,
        {.repetitions = repetitions, .trial_time = absl::Milliseconds(10)},
        FakeClocks());
  }

  FakeMachine machine_;
};

TEST_F(InterleavedTest, TrialsAreInTurns) {
  FakeLoad ours("ours", {}, absl::Milliseconds(10), &machine_);
  FakeLoad other("other", {}, absl::Milliseconds(20), &machine_);

  Measure({&ours, &other}, /*repetitions=*/2);

  EXPECT_THAT(machine_.runs,
              ElementsAre(Pair("ours", 1), Pair("other", 1),  // warm-up
                          Pair("ours", 1), Pair("other", 1),  //
                          Pair("ours", 1), Pair("other", 1)));
}

TEST_F(InterleavedTest, ShortCallsAreRepeatedUntilTheyFillATrial) {
  FakeLoad load("ours", {}, absl::Milliseconds(1), &machine_);

  Measure({&load}, /*repetitions=*/1);

  EXPECT_THAT(machine_.runs,
              ElementsAre(Pair("ours", 1), Pair("ours", 4), Pair("ours", 10)));
}

TEST_F(InterleavedTest, TrialsAreWholeRoundsOfTheCallsInFlight) {
  FakeLoad load("ours", {.in_flight = 16}, absl::Milliseconds(0.5), &machine_);

  Measure({&load}, /*repetitions=*/1);

  EXPECT_THAT(machine_.runs, ElementsAre(Pair("ours", 16), Pair("ours", 32)));
}

TEST_F(InterleavedTest, TrialHasTheLeastNumberOfCallsHoweverLong) {
  FakeLoad load("ours", {.least_calls_per_trial = 3}, absl::Milliseconds(40),
                &machine_);

  Measure({&load}, /*repetitions=*/1);

  EXPECT_THAT(machine_.runs, ElementsAre(Pair("ours", 3), Pair("ours", 3)));
}

TEST_F(InterleavedTest, RatesFollowFromTheTimePerCall) {
  FakeLoad load("ours", {.bytes_per_call = 20'000'000, .keys_per_call = 5},
                absl::Milliseconds(10), &machine_);

  const Measurement result = Measure({&load}).front().value();

  EXPECT_THAT(result.gigabytes_per_second, DoubleNear(2, 1e-9));
  EXPECT_THAT(result.keys_per_second, DoubleNear(500, 1e-6));
  EXPECT_THAT(result.p50_microseconds, DoubleNear(10'000, 1e-6));
  EXPECT_THAT(result.p99_microseconds, DoubleNear(10'000, 1e-6));
}

TEST_F(InterleavedTest, CpuTimeIsThatOfClientAndServer) {
  FakeLoad alone("alone", {.bytes_per_call = 1'000'000'000}, absl::Seconds(1),
                 &machine_);
  FakeLoad both("both", {.bytes_per_call = 1'000'000'000, .server = kServer},
                absl::Seconds(1), &machine_);

  const auto results = Measure({&alone, &both});

  EXPECT_THAT(results[0]->cpu_seconds_per_gigabyte, DoubleNear(1, 1e-9));
  EXPECT_THAT(results[1]->cpu_seconds_per_gigabyte, DoubleNear(2, 1e-9));
}

TEST_F(InterleavedTest, CallsWithoutBytesHaveOnlyKeys) {
  FakeLoad load("list", {.keys_per_call = 100}, absl::Milliseconds(10),
                &machine_);

  const Measurement result = Measure({&load}).front().value();

  EXPECT_EQ(result.gigabytes_per_second, 0);
  EXPECT_EQ(result.cpu_seconds_per_gigabyte, 0);
  EXPECT_THAT(result.keys_per_second, DoubleNear(10'000, 1e-6));
}

TEST_F(InterleavedTest, ALoadThatFailsIsLeftOutAndTheOthersGoOn) {
  FakeLoad broken("broken", {}, absl::Milliseconds(10), &machine_);
  broken.Break(absl::ResourceExhaustedError("full"));
  FakeLoad other("other", {}, absl::Milliseconds(10), &machine_);

  const auto results = Measure({&broken, nullptr, &other}, /*repetitions=*/1);

  EXPECT_THAT(results[0],
              StatusIs(absl::StatusCode::kResourceExhausted, "full"));
  EXPECT_THAT(results[1], StatusIs(absl::StatusCode::kNotFound));
  EXPECT_OK(results[2]);
  EXPECT_THAT(machine_.runs, ElementsAre(Pair("broken", 1), Pair("other", 1),
                                         Pair("other", 1)));
}

}  // namespace
}  // namespace tensorkv::bench
