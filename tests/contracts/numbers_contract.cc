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
using ::testing::Each;
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

TEST_P(NumbersContractTest, OptimizersWorkOnF64InDoublePrecision) {
  ASSERT_OK(store_.SetRule("sgd(learning_rate=0.1, momentum=0.9)"));
  ASSERT_OK(store_.Init("w", Full({3}, 1, DType::kF64)));
  double w = 1;
  double m = 0;

  for (double g : {0.3, -0.7, 0.011}) {
    ASSERT_OK(store_.Push("w", Full({3}, g, DType::kF64)));
    m = 0.9 * m - 0.1 * g;
    w += m;
  }

  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
  EXPECT_THAT(ElementsOf(value.tensor), Each(DoubleNear(w, 1e-14)));
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

// Pushes 64 gradients of `gradient` at learning rate 1 to a key that is 1.
absl::StatusOr<Value> AfterTinyUpdates(const Caller& store, DType dtype,
                                       const std::string& rule,
                                       double gradient) {
  EXPECT_OK(store.SetRule(rule));
  EXPECT_OK(store.Init("w", Full({5}, 1, dtype)));
  for (int i = 0; i < 64; ++i) {
    EXPECT_OK(store.Push("w", Full({5}, gradient, dtype)));
  }
  return store.Pull("w");
}

TEST_P(NumbersContractTest, F16MasterKeepsUpdatesBelowItsPrecision) {
  // The f16 after 1 is 1 + 2^-10.
  EXPECT_THAT(AfterTinyUpdates(store_, DType::kF16, "sgd(learning_rate=1)",
                               -std::ldexp(1, -13)),
              IsOkAndHolds(HasTensor(IsFilledWith(1.0078125))));
}

TEST_P(NumbersContractTest, BF16MasterKeepsUpdatesBelowItsPrecision) {
  // The bf16 after 1 is 1 + 2^-7.
  EXPECT_THAT(AfterTinyUpdates(store_, DType::kBF16, "sgd(learning_rate=1)",
                               -std::ldexp(1, -11)),
              IsOkAndHolds(HasTensor(IsFilledWith(1.03125))));
}

TEST_P(NumbersContractTest, F8MasterKeepsUpdatesBelowItsPrecision) {
  // The f8e4m3fn after 1 is 1.125; its smallest number is 2^-9.
  EXPECT_THAT(AfterTinyUpdates(store_, DType::kF8E4M3FN, "sgd(learning_rate=1)",
                               -std::ldexp(1, -9)),
              IsOkAndHolds(HasTensor(IsFilledWith(1.125))));
}

TEST_P(NumbersContractTest, WithoutMasterUpdatesBelowThePrecisionVanish) {
  EXPECT_THAT(AfterTinyUpdates(store_, DType::kF16,
                               "sgd(learning_rate=1, keep_master=0)",
                               -std::ldexp(1, -13)),
              IsOkAndHolds(HasTensor(IsFilledWith(1))));
}

TEST_P(NumbersContractTest, F8KeysRoundToNearestEven) {
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.Init("e4m3", Full({2}, 16, DType::kF8E4M3FN)));
  ASSERT_OK(store_.Init("e5m2", Full({2}, 16, DType::kF8E5M2)));

  ASSERT_OK(store_.Push("e4m3", Full({2}, 1, DType::kF8E4M3FN)));
  ASSERT_OK(store_.Push("e5m2", Full({2}, 6, DType::kF8E5M2)));

  // Steps are 2 and 4: 17 and 22 are ties.
  EXPECT_THAT(store_.Pull("e4m3"), IsOkAndHolds(HasTensor(IsFilledWith(16))));
  EXPECT_THAT(store_.Pull("e5m2"), IsOkAndHolds(HasTensor(IsFilledWith(24))));
}

struct WrapCase {
  DType dtype;
  double stored;
  double pushed;
  double sum;
};

TEST_P(NumbersContractTest, IntegersWrap) {
  ASSERT_OK(store_.SetRule("accumulate"));
  const WrapCase cases[] = {{DType::kI8, 100, 100, -56},
                            {DType::kU8, 200, 100, 44},
                            {DType::kI16, 32767, 1, -32768},
                            {DType::kU16, 65535, 2, 1},
                            {DType::kU32, 4294967295.0, 2, 1},
                            {DType::kU64, 0x1p63, 0x1p63, 0},
                            {DType::kI32, -2147483648.0, -1, 2147483647},
                            {DType::kI64, 4611686018427387904,
                             4611686018427387904, -9223372036854775808.0}};

  for (const WrapCase& c : cases) {
    const std::string key(NameOf(c.dtype));
    ASSERT_OK(store_.Init(key, Full({3}, c.stored, c.dtype)));
    ASSERT_OK(store_.Push(key, Full({3}, c.pushed, c.dtype)));
    EXPECT_THAT(store_.Pull(key), IsOkAndHolds(HasTensor(IsFilledWith(c.sum))))
        << key;
  }
}

TEST_P(NumbersContractTest, SumsOfIntegersAreExactAndScaled) {
  ASSERT_OK(store_.SetRule("accumulate(scale=3)"));
  ASSERT_OK(store_.Init("w", Vector({1, -2, 3}, DType::kI32)));

  ASSERT_OK(store_.PushMany(
      {{.key = "w", .tensor = Vector({16777217, 1, 0}, DType::kI32)},
       {.key = "w", .tensor = Vector({1, 1, 5}, DType::kI32)}}));

  EXPECT_THAT(store_.Pull("w"),
              IsOkAndHolds(HasTensor(HasElements({50331655, 4, 18}))));
}

TEST_P(NumbersContractTest, SumsOfBoolsAreLogicalOr) {
  ASSERT_OK(store_.Init("w", Vector({0, 0, 0}, DType::kBool)));

  ASSERT_OK(store_.PushMany(
      {{.key = "w", .tensor = Vector({0, 1, 1}, DType::kBool)},
       {.key = "w", .tensor = Vector({0, 0, 1}, DType::kBool)}}));

  EXPECT_THAT(store_.Pull("w"),
              IsOkAndHolds(HasTensor(HasElements({0, 1, 1}))));
}

TEST_P(NumbersContractTest, NanAndInfinityPassThrough) {
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.Init("w", Vector({1, 1, 1})));

  ASSERT_OK(store_.Push("w", Vector({INFINITY, NAN, 1})));

  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
  const std::vector<double> elements = ElementsOf(value.tensor);
  EXPECT_EQ(elements[0], INFINITY);
  EXPECT_TRUE(std::isnan(elements[1]));
  EXPECT_EQ(elements[2], 2);
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
