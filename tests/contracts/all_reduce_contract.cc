// PushPull by all workers at once: an all-reduce, or one training step.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/contracts/store_contract.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::testing::ElementsAre;

TEST_P(AllReduceContractTest, AssignGivesEveryWorkerTheSum) {
  constexpr int kWorkers = 4;
  const Caller sync = NewSyncNamespace(kWorkers);
  ASSERT_OK(sync.Init("w", Full({1000}, 0)));

  RunConcurrently(kWorkers, [&](int rank) {
    for (Step step = 1; step <= 10; ++step) {
      const double own = rank + 10.0 * step;
      EXPECT_THAT(sync.As(rank).PushPull("w", Full({1000}, own), step),
                  IsOkAndHolds(HasTensor(IsFilledWith(6 + 40.0 * step))));
    }
  });
}

TEST_P(AllReduceContractTest, ManyKeysInOneCall) {
  constexpr int kWorkers = 3;
  const Caller sync = NewSyncNamespace(kWorkers);
  ASSERT_OK(sync.InitMany({{"a", Full({2, 2}, 0)}, {"b", Full({5}, 0)}}));

  RunConcurrently(kWorkers, [&](int rank) {
    for (Step step = 1; step <= 10; ++step) {
      ASSERT_OK_AND_ASSIGN(
          const PullReply reply,
          sync.As(rank).PushPullMany(
              {{.key = "a", .tensor = Full({2, 2}, 1.0 * step)},
               {.key = "b", .tensor = Full({5}, rank)}},
              step));
      EXPECT_THAT(reply.values, ElementsAre(HasTensor(IsFilledWith(3.0 * step)),
                                            HasTensor(IsFilledWith(3))));
    }
  });
}

TEST_P(AllReduceContractTest, OptimizerGivesEveryWorkerTheSameWeights) {
  constexpr int kWorkers = 4;
  const Caller sync =
      NewSyncNamespace(kWorkers, "sgd(learning_rate=0.25, momentum=0.5)");
  ASSERT_OK(sync.Init("w", Full({100}, 0)));
  std::vector<std::string> weights(kWorkers);

  RunConcurrently(kWorkers, [&](int rank) {
    for (Step step = 1; step <= 10; ++step) {
      ASSERT_OK_AND_ASSIGN(
          const Value value,
          sync.As(rank).PushPull("w", Full({100}, 0.1 * rank), step));
      weights[rank] += BytesOf(value.tensor);
    }
  });

  EXPECT_EQ(weights, std::vector<std::string>(kWorkers, weights[0]));
}

TEST_P(AllReduceContractTest, WorkersMayPushAndPullInTwoCalls) {
  constexpr int kWorkers = 4;
  const Caller sync = NewSyncNamespace(kWorkers, "accumulate");
  ASSERT_OK(sync.Init("w", Full({10}, 0)));

  RunConcurrently(kWorkers, [&](int rank) {
    for (Step step = 1; step <= 10; ++step) {
      ASSERT_OK(sync.As(rank).Push("w", Full({10}, 1), step));
      EXPECT_THAT(sync.As(rank).Pull("w"),
                  IsOkAndHolds(HasTensor(IsFilledWith(4.0 * step))));
    }
  });
}

// The distributed test of MXNet's KVStore: the store starts with ones, w <- w
// + 2 sum; worker k of n pushes k + 1. After each step it is n (n + 1) more.
void RunDistributedTest(const Caller& sync, const Shape& shape, DType dtype,
                        Step num_steps) {
  constexpr int kWorkers = 7;
  const std::string key = Description(dtype, shape);
  ASSERT_OK(sync.Init(key, Full(shape, 1, dtype)));

  RunConcurrently(kWorkers, [&](int rank) {
    const Tensor contribution = Full(shape, rank + 1, dtype);
    for (Step step = 1; step <= num_steps; ++step) {
      EXPECT_THAT(sync.As(rank).PushPull(key, contribution, step),
                  IsOkAndHolds(HasTensor(IsFilledWith(1 + 56.0 * step))));
    }
  });
}

TEST_P(AllReduceContractTest, SmallTensorsAsInMxnet) {
  const Caller sync = NewSyncNamespace(7, "accumulate(scale=2)");

  RunDistributedTest(sync, {4, 5}, DType::kF32, 20);
  RunDistributedTest(sync, {4, 5}, DType::kF16, 20);
}

TEST_P(AllReduceContractTest, LargeTensorsAsInMxnet) {
  const Caller sync = NewSyncNamespace(7, "accumulate(scale=2)");

  RunDistributedTest(sync, {1200, 1200}, DType::kF32, 1);
  RunDistributedTest(sync, {1200, 1200}, DType::kF16, 1);
}

}  // namespace
}  // namespace tensorkv::testing
