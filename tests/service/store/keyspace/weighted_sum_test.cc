#include "service/store/keyspace/weighted_sum.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;

Slot SlotOfWeight(double element, double weight) {
  return Slot(PushEntry{.tensor = *Tensor::Filled(DType::kF32, {2}, element),
                        .weight = weight});
}

TEST(WeightedSumTest, SumHasWeightsIfAnyPartHas) {
  const struct {
    std::vector<double> weights;
    bool has_weights;
  } kRows[] = {{{0, 1}, false}, {{0.5, 1.5}, true}, {{1, 3}, true}};
  for (const auto& [weights, has_weights] : kRows) {
    std::vector<Slot> slots;
    for (const double weight : weights) {
      slots.push_back(SlotOfWeight(1, weight));
    }

    Slot sum;
    AddUpWeights(slots, sum);

    EXPECT_EQ(HasWeights({&sum, 1}), has_weights);
    EXPECT_FALSE(HasFactors({&sum, 1}));
  }
}

TEST(WeightedSumTest, SumsOfSeveralNumbersOfContributionsAreMadeTogether) {
  testing::ScriptedBackend device;
  const std::vector<Slot> one = {SlotOfWeight(1, 2)};
  const std::vector<Slot> three = {SlotOfWeight(1, 2), SlotOfWeight(10, 1),
                                   SlotOfWeight(100, 0.5)};
  Tensor sum_of_one = *Tensor::Filled(DType::kF32, {2}, 7);
  Tensor sum_of_three = *Tensor::Filled(DType::kF32, {2}, 7);
  WeightedSums sums;
  sums.Add(one, sum_of_one.mutable_view());
  sums.Add(three, sum_of_three.mutable_view());

  ASSERT_OK(sums.Run(device));

  EXPECT_THAT(testing::ElementsOf(sum_of_one), ElementsAre(2, 2));
  EXPECT_THAT(testing::ElementsOf(sum_of_three), ElementsAre(62, 62));
}

}  // namespace
}  // namespace tensorkv
