// The arithmetic of updates: a rule against a model in double precision, and
// what every dtype does with sums.

#include <cmath>
#include <string>
#include <vector>

#include "tests/contracts/store_contract.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

// Elements of either sign and of different sizes.
std::vector<double> Spread(int num_elements, double scale) {
  std::vector<double> elements(num_elements);
  for (int i = 0; i < num_elements; ++i) {
    elements[i] = scale * (i - num_elements / 2) / 8.0;
  }
  return elements;
}

// Each rule is compared with an oracle in tests/contracts/backend: this one
// needs all that a store keeps for it, its states and the number of updates.
TEST_P(NumbersContractTest, AdamWFollowsItsModel) {
  constexpr int kNumElements = 37;  // not a multiple of any vector register
  ASSERT_OK(store_.SetRule(
      "adamw(learning_rate=0.1, beta1=0.8, beta2=0.99, epsilon=0.001, "
      "weight_decay=0.1, rescale_grad=0.5)"));
  std::vector<double> w = Spread(kNumElements, 1);
  std::vector<double> m(kNumElements);
  std::vector<double> v(kNumElements);
  ASSERT_OK(store_.Init("w", Vector(w)));

  for (int t = 1; t <= 6; ++t) {
    const std::vector<double> gradient = Spread(kNumElements, 0.25 * t);
    ASSERT_OK(store_.Push("w", Vector(gradient)));
    for (int i = 0; i < kNumElements; ++i) {
      const double scaled = 0.5 * gradient[i];
      m[i] = 0.8 * m[i] + 0.2 * scaled;
      v[i] = 0.99 * v[i] + 0.01 * scaled * scaled;
      const double mean = m[i] / (1 - std::pow(0.8, t));
      const double variance = v[i] / (1 - std::pow(0.99, t));
      w[i] -= 0.1 * (mean / (std::sqrt(variance) + 0.001) + 0.1 * w[i]);
    }
  }

  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
  EXPECT_THAT(ElementsOf(value.tensor), Pointwise(DoubleNear(2e-5), w));
}

TEST_P(NumbersContractTest, FloatKeysTakeAnyFloat) {
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.Init("w", Full({2}, 0)));

  ASSERT_OK(store_.Push("w", Full({2}, 0.5, DType::kF16)));
  ASSERT_OK(store_.Push("w", Full({2}, 3, DType::kBF16)));
  ASSERT_OK(store_.Push("w", Full({2}, 16, DType::kF64)));
  ASSERT_OK(store_.Push("w", Full({2}, 32, DType::kF8E4M3FN)));
  ASSERT_OK(store_.Push("w", Full({2}, 64, DType::kF8E5M2)));

  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(115.5))));
}

TEST_P(NumbersContractTest, AssignConvertsToTheKeysDType) {
  ASSERT_OK(store_.Init("w", Full({2}, 0, DType::kF16)));

  ASSERT_OK(store_.Push("w", Full({2}, 0.1)));

  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
  EXPECT_EQ(value.tensor.Description(), "f16[2]");
  EXPECT_THAT(value.tensor, IsFilledWith(0.0999755859375));
}

TEST_P(NumbersContractTest, SumsOfSmallFloatsRoundOnce) {
  ASSERT_OK(store_.Init("w", Full({2}, 0, DType::kF16)));
  const Tensor big = Full({2}, 2048, DType::kF16);
  const Tensor one = Full({2}, 1, DType::kF16);

  // 2048 + 1 is 2048 in f16; rounded once, the sum is 2050.
  ASSERT_OK(store_.PushMany({{.key = "w", .tensor = big},
                             {.key = "w", .tensor = one},
                             {.key = "w", .tensor = one}}));

  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(2050))));
}

TEST_P(NumbersContractTest, MasterKeepsUpdatesBelowThePrecision) {
  const struct {
    DType dtype;
    bool keeps_master;
    double gradient;
    double expected;
  } kRows[] = {// The numbers after 1 are 1 + 2^-10, 1 + 2^-7 and 1.125.
               {DType::kF16, true, -0x1p-13, 1.0078125},
               {DType::kBF16, true, -0x1p-11, 1.03125},
               {DType::kF8E4M3FN, true, -0x1p-9, 1.125},
               {DType::kF16, false, -0x1p-13, 1}};
  for (const auto& [dtype, keeps_master, gradient, expected] : kRows) {
    ASSERT_OK(store_.SetRule(keeps_master
                                 ? "sgd(learning_rate=1)"
                                 : "sgd(learning_rate=1, keep_master=0)"));
    ASSERT_OK(store_.Init("w", Full({5}, 1, dtype), OnExisting::kReplace));
    for (int i = 0; i < 64; ++i) {
      ASSERT_OK(store_.Push("w", Full({5}, gradient, dtype)));
    }
    EXPECT_THAT(store_.Pull("w"),
                IsOkAndHolds(HasTensor(IsFilledWith(expected))))
        << NameOf(dtype);
  }
}

TEST_P(NumbersContractTest, EveryDTypeIsStoredAndAssigned) {
  for (DType dtype : kAllDTypes) {
    const std::string key(NameOf(dtype));
    ASSERT_OK(store_.Init(key, Full({2, 3}, 0, dtype)));
    ASSERT_OK(store_.Push(key, Full({2, 3}, 1, dtype)));
    ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull(key));
    EXPECT_EQ(value.tensor.dtype(), dtype);
    EXPECT_THAT(value.tensor, IsFilledWith(1)) << key;
  }
}

TEST_P(NumbersContractTest, ScalarsHaveOneElement) {
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.Init("w", Full(Shape(), 1)));

  ASSERT_OK(store_.Push("w", Full(Shape(), 2)));

  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
  EXPECT_EQ(value.tensor.Description(), "f32[]");
  EXPECT_THAT(value.tensor, HasElements({3}));
}

TEST_P(NumbersContractTest, TensorsWithoutElementsAreKeysLikeOthers) {
  ASSERT_OK(store_.SetRule("adam"));
  ASSERT_OK(store_.Init("w", Full({0, 3}, 0)));

  ASSERT_OK(store_.Push("w", Full({0, 3}, 0)));

  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
  EXPECT_EQ(value.version, 2);
  EXPECT_EQ(value.tensor.Description(), "f32[0,3]");
}

TEST_P(NumbersContractTest, RankEightIsTheHighest) {
  const Shape shape({1, 2, 1, 2, 1, 2, 1, 3});
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.Init("w", Full(shape, 1)));

  ASSERT_OK(store_.Push("w", Full(shape, 1)));

  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
  EXPECT_EQ(value.tensor.shape(), shape);
  EXPECT_THAT(value.tensor, IsFilledWith(2));
}

}  // namespace
}  // namespace tensorkv::testing
