// Contributions that come after a quorum has closed their round, and rounds
// whose time is over.

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/compression/compressor.h"
#include "contract/reason.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace late_contract {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::Field;
using ::testing::HasSubstr;

NamespaceConfig Carrying(Aggregation aggregation = Aggregation::kSum,
                         SumOrder sum_order = SumOrder::kRank) {
  return {.mode = Mode::kSync,
          .num_workers = 3,
          .quorum = 2,
          .aggregation = aggregation,
          .sum_order = sum_order,
          .late = Late::kCarry};
}

// The step whose round holds what was pushed.
auto IsHeldBy(Step step, bool repeated = false) {
  return AllOf(Field("step", &PushResult::step, step),
               Field("repeated", &PushResult::repeated, repeated));
}

PushEntry Weighted(double element, double weight) {
  return {.key = "w", .tensor = Full({2}, element), .weight = weight};
}

// A namespace with the key "w", and three workers that have joined.
struct Group {
  explicit Group(const Caller& caller, Tensor value = Full({2}, 0))
      : sync(caller) {
    EXPECT_OK(sync.Init("w", std::move(value)));
    for (const char* name : {"a", "b", "c"}) {
      workers.push_back(sync.Join(name).value());
    }
  }

  // Has the first two push, so that a quorum closes the round of the step.
  void Close(Step step, double element = 0) const {
    ASSERT_OK(workers[0].Push("w", Full({2}, element), step));
    ASSERT_OK(workers[1].PushPull("w", Full({2}, element), step));
  }

  Caller sync;
  std::vector<Caller> workers;
};

TEST_P(RoundSumContractTest, NextRoundTakesWhatIsLate) {
  for (const SumOrder order : {SumOrder::kRank, SumOrder::kArrival}) {
    const Group group(NewNamespace(absl::StrCat("n", static_cast<int>(order)),
                                   Carrying(Aggregation::kSum, order)));
    const auto& [a, b, c] =
        std::tie(group.workers[0], group.workers[1], group.workers[2]);
    group.Close(1, 1);
    EXPECT_THAT(c.Push("w", Full({2}, 4), 1), IsOkAndHolds(IsHeldBy(2)));
    // It waits for nothing that carries it.
    EXPECT_THAT(c.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(2))));
    EXPECT_THAT(c.Push("w", Full({2}, 4), 1), IsOkAndHolds(IsHeldBy(2, true)));
    ASSERT_OK(a.Push("w", Full({2}, 10), 2));
    // What is carried is no part of the quorum, nor the worker's own.
    EXPECT_EQ(group.sync.Describe()->rounds_open(), 1);
    EXPECT_THAT(c.PushPull("w", Full({2}, 20), 2),
                IsOkAndHolds(HasTensor(IsFilledWith(34))));

    EXPECT_THAT(
        c.Push("w", Full({2}, 9), 1),
        IsOkAndHolds(AllOf(IsHeldBy(2, true),
                           Field("version", &PushResult::version, 3u))));
    EXPECT_THAT(b.Push("w", Full({2}, 5), 2), IsOkAndHolds(IsHeldBy(3)));
    group.Close(3, 1);
    EXPECT_THAT(group.sync.Pull("w"),
                IsOkAndHolds(AllOf(HasVersion(4), HasTensor(IsFilledWith(7)))));
  }
}

TEST_P(RoundSumContractTest, WhatIsLateWeighsLessByItsAge) {
  for (const SumOrder order : {SumOrder::kRank, SumOrder::kArrival}) {
    NamespaceConfig config = Carrying(Aggregation::kMean, order);
    config.staleness_decay = 0.5;
    const Group group(
        NewNamespace(absl::StrCat("n", static_cast<int>(order)), config));
    const auto& [a, b, c] =
        std::tie(group.workers[0], group.workers[1], group.workers[2]);
    group.Close(1);
    group.Close(2);
    ASSERT_OK(c.PushMany({Weighted(16, 4)}, 1));
    ASSERT_OK(c.PushMany({Weighted(8, 4)}, 2));
    ASSERT_OK(b.PushMany({Weighted(4, 1)}, 3));

    ASSERT_OK(a.PushMany({Weighted(12, 4)}, 3));

    // (4 * 1 + 12 * 4 + 16 * 4 / 4 + 8 * 4 / 2) / (1 + 4 + 1 + 2)
    EXPECT_THAT(a.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(10.5))));
  }
}

// A worker's entries for a key are one contribution, also the first worker's.
TEST_P(RoundSumContractTest, EntriesOfALateCallAreSummedFirst) {
  for (const Aggregation aggregation :
       {Aggregation::kSum, Aggregation::kMean}) {
    const Caller sync =
        NewNamespace(absl::StrCat("n", static_cast<int>(aggregation)),
                     Carrying(aggregation));
    ASSERT_OK(sync.Init("w", Full({2}, 0)));
    for (Step step = 1; step <= 2; ++step) {
      ASSERT_OK(sync.As(1).Push("w", Full({2}, 1), step));
      ASSERT_OK(sync.As(2).Push("w", Full({2}, 1), step));
      ASSERT_OK(sync.As(2).Pull("w"));
      if (step > 1) break;
      ASSERT_OK(sync.As(0).PushMany({{.key = "w", .tensor = Full({2}, 1e8)},
                                     {.key = "w", .tensor = Full({2}, -1e8)},
                                     {.key = "w", .tensor = Full({2}, 4)}},
                                    1));
    }

    EXPECT_THAT(sync.Pull("w"),
                IsOkAndHolds(HasTensor(
                    IsFilledWith(aggregation == Aggregation::kSum ? 6 : 2))));
  }
}

TEST_P(RoundSumContractTest, RowsAndEncodedTensorsAreCarried) {
  const Caller sync = NewNamespace("n", Carrying());
  ASSERT_OK(sync.Init("w", Full({2, 2}, 9)));
  const auto close = [&](Step step) {
    ASSERT_OK(sync.As(0).Skip("w", step));
    ASSERT_OK(sync.As(1).Skip("w", step));
    ASSERT_OK(sync.As(1).Pull("w"));
  };
  close(1);
  ASSERT_OK(
      sync.As(2).PushRows({{.key = "w",
                            .tensor = Full({1, 2}, 4),
                            .rows = *RowIds::Create(Vector({1}, DType::kI64))}},
                          1));
  close(2);
  EXPECT_THAT(sync.Pull("w"),
              IsOkAndHolds(HasTensor(HasElements({9, 9, 4, 4}))));

  Compressor compressor(
      {.rules = {{"", *Compression::Parse("2bit:2")}}, .min_bytes = 0});
  std::vector<PushEntry> entries = {{.key = "w", .tensor = Full({2, 2}, 3)}};
  ASSERT_OK(
      sync.As(2).PushMany(*compressor.Compress(0, std::move(entries)), 2));
  close(3);

  EXPECT_THAT(sync.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(2))));
}

TEST_P(RoundSumContractTest, WhatIsLateByTooManyRoundsIsRefused) {
  NamespaceConfig config = Carrying();
  config.max_open_rounds = 2;
  const Group group(NewNamespace("n", config));
  const Caller& c = group.workers[2];
  for (Step step = 1; step <= 3; ++step) group.Close(step);

  EXPECT_THAT(c.Push("w", Full({2}, 4), 1), HasReason(Reason::kStepClosed));
  EXPECT_THAT(c.Push("w", Full({2}, 4), 2), IsOkAndHolds(IsHeldBy(4)));
  EXPECT_THAT(c.Push("w", Full({2}, 8), 3), IsOkAndHolds(IsHeldBy(4)));
  group.Close(4);

  EXPECT_THAT(group.sync.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(12))));
}

TEST_P(RoundSumContractTest, WhatAFailedRoundWasToTakeMustBePushedAgain) {
  Group group(NewNamespace("n", Carrying()));
  const auto& [a, b, c] =
      std::tie(group.workers[0], group.workers[1], group.workers[2]);
  group.Close(1, 1);
  ASSERT_OK(c.Push("w", Full({2}, 4), 1));
  ASSERT_OK(a.Push("w", Full({2}, 10), 2));

  ASSERT_OK(b.Fail());

  EXPECT_THAT(c.Pull("w"),
              HasReason(Reason::kRoundFailed,
                        {{"key", "w"}, {"step", "1"}, {"ranks", "1"}}));
  EXPECT_THAT(c.Push("w", Full({2}, 4), 2), HasReason(Reason::kRoundFailed));
  EXPECT_EQ(c.KeepAlive()->next_step(), 1);
  EXPECT_EQ(a.KeepAlive()->next_step(), 2);
  EXPECT_THAT(c.Push("w", Full({2}, 4), 1), IsOkAndHolds(IsHeldBy(2)));
  ASSERT_OK(a.Push("w", Full({2}, 10), 2));
  EXPECT_THAT(c.PushPull("w", Full({2}, 20), 2),
              IsOkAndHolds(HasTensor(IsFilledWith(34))));
}

TEST_P(RoundSumContractTest, OnlySumsAndMeansThatMayBeLateAreCarried) {
  const auto is_refused = [](const char* what) {
    return StatusIs(StatusCode::kInvalidArgument, HasSubstr(what));
  };
  const Caller bad = store_.In("bad");
  EXPECT_THAT(bad.Create({.late = Late::kCarry}), is_refused("mode async"));
  EXPECT_THAT(bad.Create({.round_timeout = absl::Seconds(1)}),
              is_refused("mode async"));
  for (const Aggregation aggregation :
       {Aggregation::kMedian, Aggregation::kTrimmedMean}) {
    EXPECT_THAT(bad.Create(Carrying(aggregation)), is_refused("late"));
  }
  NamespaceConfig config = Carrying();
  config.rescale_partial_rounds = true;
  EXPECT_THAT(bad.Create(config), is_refused("late"));
  config = Carrying();
  config.staleness_decay = 0.5;
  EXPECT_THAT(bad.Create(config), is_refused("staleness_decay"));
  config.aggregation = Aggregation::kMean;
  for (const double decay : {-0.5, 1.5, double{NAN}}) {
    config.staleness_decay = decay;
    EXPECT_THAT(bad.Create(config), is_refused("at most 1"));
  }
  for (const absl::Duration time : {-absl::Seconds(1), absl::Hours(169)}) {
    config = Carrying();
    config.round_timeout = time;
    EXPECT_THAT(bad.Create(config), is_refused("round_timeout"));
  }
}

TEST_P(SyncContractTest, RoundFailsThatHasNoQuorumInTime) {
  const Caller sync =
      NewNamespace("n", {.mode = Mode::kSync,
                         .num_workers = 4,
                         .quorum = 3,
                         .quorum_grace = absl::Hours(1),
                         .round_timeout = absl::Milliseconds(1)});
  ASSERT_OK(sync.InitMany({{"w", Full({2}, 5)}, {"x", Full({2}, 5)}}));
  ASSERT_OK(sync.As(2).Push("w", Full({2}, 1), 1));

  const absl::Status failed = sync.As(2).Pull("w").status();

  EXPECT_THAT(
      failed,
      AllOf(StatusIs(
                StatusCode::kAborted,
                HasSubstr(
                    "round 1 of \"w\" failed: its round_timeout of 1ms is over "
                    "with rank 2 and without ranks 0, 1, 3, and needs 3")),
            HasReason(Reason::kRoundFailed, {{"key", "w"},
                                             {"step", "1"},
                                             {"ranks", "0,1,3"},
                                             {"came", "2"}})));
  EXPECT_THAT(sync.As(2).Push("w", Full({2}, 1), 2),
              HasReason(Reason::kRoundFailed));
  EXPECT_OK(sync.As(2).Pull("x"));
  EXPECT_EQ(sync.Describe()->rounds_failed(), 1);
}

}  // namespace late_contract
}  // namespace tensorkv::testing
