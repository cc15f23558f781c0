// The arithmetic of updates: each rule against a model in double precision,
// and what every dtype does with sums.

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/contracts/store_contract.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// One element under a rule, as rule.proto's table says.
struct ElementModel {
  double w = 0;
  double m = 0;
  double v = 0;
  int t = 0;
};

using ModelStep = std::function<void(ElementModel&, double g)>;

double Clip(double x, double bound) { return std::clamp(x, -bound, bound); }

// lr sqrt(1 - beta2^t) / (1 - beta1^t).
double CorrectedRate(double rate, double beta1, double beta2, int t) {
  return rate * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
}

// Elements of either sign and of different sizes.
std::vector<double> Spread(int num_elements, double scale) {
  std::vector<double> elements(num_elements);
  for (int i = 0; i < num_elements; ++i) {
    elements[i] = scale * (i - num_elements / 2) / 8.0;
  }
  return elements;
}

// Pushes six different gradients and compares with `step` done in double.
void ExpectFollowsModel(const Caller& store, const std::string& rule,
                        const ModelStep& step) {
  constexpr int kNumElements = 37;  // not a multiple of any vector register
  ASSERT_OK(store.SetRule(rule));
  const std::vector<double> initial = Spread(kNumElements, 1);
  ASSERT_OK(store.Init("w", Vector(initial)));
  std::vector<ElementModel> model(kNumElements);
  for (int i = 0; i < kNumElements; ++i) model[i].w = initial[i];

  for (int update = 1; update <= 6; ++update) {
    const std::vector<double> gradient = Spread(kNumElements, 0.25 * update);
    ASSERT_OK(store.Push("w", Vector(gradient)));
    for (int i = 0; i < kNumElements; ++i) step(model[i], gradient[i]);
  }

  std::vector<double> expected;
  for (const ElementModel& element : model) expected.push_back(element.w);
  ASSERT_OK_AND_ASSIGN(const Value value, store.Pull("w"));
  EXPECT_THAT(ElementsOf(value.tensor), Pointwise(DoubleNear(2e-5), expected));
}

TEST_P(NumbersContractTest, Sgd) {
  ExpectFollowsModel(
      store_,
      "sgd(learning_rate=0.5, weight_decay=0.01, rescale_grad=0.25, "
      "clip_gradient=0.6)",
      [](ElementModel& e, double g) {
        e.w -= 0.5 * (Clip(0.25 * g, 0.6) + 0.01 * e.w);
      });
}

TEST_P(NumbersContractTest, SgdWithMomentum) {
  ExpectFollowsModel(store_,
                     "sgd(learning_rate=0.1, momentum=0.9, weight_decay=0.01, "
                     "rescale_grad=0.5, clip_gradient=1)",
                     [](ElementModel& e, double g) {
                       e.m = 0.9 * e.m - 0.1 * (Clip(0.5 * g, 1) + 0.01 * e.w);
                       e.w += e.m;
                     });
}

TEST_P(NumbersContractTest, Adam) {
  ExpectFollowsModel(
      store_, "adam(learning_rate=0.1, weight_decay=0.01, clip_gradient=1)",
      [](ElementModel& e, double g) {
        const double decayed = Clip(g, 1) + 0.01 * e.w;
        e.m = 0.9 * e.m + 0.1 * decayed;
        e.v = 0.999 * e.v + 0.001 * decayed * decayed;
        e.w -= CorrectedRate(0.1, 0.9, 0.999, ++e.t) * e.m /
               (std::sqrt(e.v) + 1e-8);
      });
}

TEST_P(NumbersContractTest, AdamW) {
  ExpectFollowsModel(
      store_,
      "adamw(learning_rate=0.1, beta1=0.8, beta2=0.99, epsilon=0.001, "
      "weight_decay=0.1, rescale_grad=0.5)",
      [](ElementModel& e, double g) {
        const double scaled = 0.5 * g;
        e.m = 0.8 * e.m + 0.2 * scaled;
        e.v = 0.99 * e.v + 0.01 * scaled * scaled;
        ++e.t;
        const double mean = e.m / (1 - std::pow(0.8, e.t));
        const double variance = e.v / (1 - std::pow(0.99, e.t));
        e.w -= 0.1 * (mean / (std::sqrt(variance) + 0.001) + 0.1 * e.w);
      });
}

TEST_P(NumbersContractTest, AdamWWithoutBiasCorrection) {
  ExpectFollowsModel(
      store_, "adamw(learning_rate=0.01, weight_decay=0.1, correct_bias=0)",
      [](ElementModel& e, double g) {
        e.m = 0.9 * e.m + 0.1 * g;
        e.v = 0.999 * e.v + 0.001 * g * g;
        e.w -= 0.01 * (e.m / (std::sqrt(e.v) + 1e-8) + 0.1 * e.w);
      });
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

// Pushes 512 gradients of `gradient` at learning rate 1 to a key that is 1.
absl::StatusOr<Value> AfterTinyUpdates(const Caller& store, DType dtype,
                                       const std::string& rule,
                                       double gradient) {
  EXPECT_OK(store.SetRule(rule));
  EXPECT_OK(store.Init("w", Full({5}, 1, dtype)));
  for (int i = 0; i < 512; ++i) {
    EXPECT_OK(store.Push("w", Full({5}, gradient, dtype)));
  }
  return store.Pull("w");
}

TEST_P(NumbersContractTest, F16MasterKeepsUpdatesBelowItsPrecision) {
  // The f16 after 1 is 1 + 2^-10.
  EXPECT_THAT(AfterTinyUpdates(store_, DType::kF16, "sgd(learning_rate=1)",
                               -std::ldexp(1, -13)),
              IsOkAndHolds(HasTensor(IsFilledWith(1.0625))));
}

TEST_P(NumbersContractTest, BF16MasterKeepsUpdatesBelowItsPrecision) {
  // The bf16 after 1 is 1 + 2^-7.
  EXPECT_THAT(AfterTinyUpdates(store_, DType::kBF16, "sgd(learning_rate=1)",
                               -std::ldexp(1, -11)),
              IsOkAndHolds(HasTensor(IsFilledWith(1.25))));
}

TEST_P(NumbersContractTest, F8MasterKeepsUpdatesBelowItsPrecision) {
  // The f8e4m3fn after 1 is 1.125; its smallest number is 2^-9.
  EXPECT_THAT(AfterTinyUpdates(store_, DType::kF8E4M3FN, "sgd(learning_rate=1)",
                               -std::ldexp(1, -9)),
              IsOkAndHolds(HasTensor(IsFilledWith(2))));
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
