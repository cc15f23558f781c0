// The sum of a round: the same bits whatever the order of arrival.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/contracts/store_contract.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

// Numbers of all sizes and signs, other ones for every rank: the bits of their
// f32 sum depend on its order.
Tensor OrderSensitive(uint32_t rank, int64_t num_elements, DType dtype) {
  std::mt19937 random(rank);
  std::vector<double> elements(num_elements);
  for (double& element : elements) {
    const int exponent = static_cast<int>(random() % 24);
    element = std::ldexp(static_cast<int32_t>(random()), exponent - 32);
  }
  return Vector(elements, dtype);
}

// Sums in f32, in rank order, and rounds once.
Tensor RankOrderSum(const std::vector<Tensor>& contributions) {
  std::vector<double> sum = ElementsOf(contributions[0]);
  for (size_t rank = 1; rank < contributions.size(); ++rank) {
    const std::vector<double> next = ElementsOf(contributions[rank]);
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] = static_cast<float>(sum[i]) + static_cast<float>(next[i]);
    }
  }
  return Vector(sum, contributions[0].dtype());
}

// Lets the workers arrive in several orders; the sum has always the same bits.
void ExpectSumInRankOrder(const Caller& sync, uint32_t num_workers,
                          int64_t num_elements, DType dtype) {
  std::vector<Tensor> contributions;
  for (uint32_t rank = 0; rank < num_workers; ++rank) {
    contributions.push_back(OrderSensitive(rank, num_elements, dtype));
  }
  const std::string expected = BytesOf(RankOrderSum(contributions));
  std::vector<uint32_t> arrival(num_workers);
  std::iota(arrival.begin(), arrival.end(), 0);
  std::mt19937 random(7);

  ASSERT_OK(sync.Init("w", Full({num_elements}, 0, dtype)));
  for (Step step = 1; step <= 50; ++step) {
    for (uint32_t rank : arrival) {
      ASSERT_OK(sync.As(rank).Push("w", contributions[rank], step));
    }
    EXPECT_TRUE(BytesOf(sync.Pull("w")->tensor) == expected)
        << "arrival " << ::testing::PrintToString(arrival);
    if (step == 1) std::reverse(arrival.begin(), arrival.end());
    if (step > 1) std::shuffle(arrival.begin(), arrival.end(), random);
  }
}

TEST_P(RoundSumContractTest, SumHasTheSameBitsInEveryOrderOfArrival) {
  ExpectSumInRankOrder(NewSyncNamespace(5), 5, 100, DType::kF32);
}

TEST_P(RoundSumContractTest, SumOfManyWorkersHasTheSameBitsToo) {
  ExpectSumInRankOrder(NewSyncNamespace(40), 40, 1000, DType::kF32);
}

TEST_P(RoundSumContractTest, SumOfManySmallFloatsIsRoundedOnce) {
  ExpectSumInRankOrder(NewSyncNamespace(40), 40, 1000, DType::kBF16);
}

}  // namespace
}  // namespace tensorkv::testing
