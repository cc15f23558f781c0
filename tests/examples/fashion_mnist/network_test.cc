#include "examples/fashion_mnist/network.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::fashion_mnist {
namespace {

using ::absl::StatusCode;
using ::tensorkv::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr NetworkSize kSmall = {.inputs = 5, .hidden = 7, .classes = 4};

// The parameters as doubles, so that they can be moved by tiny amounts.
using Doubles = std::vector<std::vector<double>>;

Doubles ToDoubles(const Parameters& parameters) {
  Doubles result;
  for (const Tensor& tensor : parameters) {
    const absl::Span<const float> elements = tensor.elements<float>();
    result.emplace_back(elements.begin(), elements.end());
  }
  return result;
}

std::vector<double> DenseLayer(const std::vector<double>& input,
                               const std::vector<double>& weights,
                               const std::vector<double>& bias) {
  std::vector<double> output = bias;
  for (size_t i = 0; i < input.size(); ++i) {
    for (size_t j = 0; j < output.size(); ++j) {
      output[j] += input[i] * weights[i * output.size() + j];
    }
  }
  return output;
}

// The loss of one image, computed plainly and in double precision.
double ImageLoss(const Doubles& parameters, const std::vector<double>& image,
                 int label) {
  std::vector<double> hidden = DenseLayer(image, parameters[0], parameters[1]);
  for (double& element : hidden) element = std::max(element, 0.0);
  double sum = 0;
  const std::vector<double> scores =
      DenseLayer(hidden, parameters[2], parameters[3]);
  for (const double score : scores) sum += std::exp(score);
  return std::log(sum) - scores[label];
}

double BatchLoss(const Doubles& parameters, const Batch& batch) {
  double loss = 0;
  for (Eigen::Index i = 0; i < batch.images.rows(); ++i) {
    const float* row = batch.images.row(i).data();
    loss += ImageLoss(parameters, {row, row + batch.images.cols()},
                      batch.labels[i]);
  }
  return loss;
}

// Central differences of BatchLoss by every element of one parameter.
std::vector<double> NumericGradient(Doubles parameters, size_t parameter,
                                    const Batch& batch) {
  constexpr double kStep = 1e-6;
  std::vector<double> gradient;
  for (double& element : parameters[parameter]) {
    const double original = element;
    element = original + kStep;
    const double above = BatchLoss(parameters, batch);
    element = original - kStep;
    gradient.push_back((above - BatchLoss(parameters, batch)) / (2 * kStep));
    element = original;
  }
  return gradient;
}

Batch RandomBatch(int64_t size) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  Batch batch;
  batch.images.resize(size, kSmall.inputs);
  std::generate_n(batch.images.data(), batch.images.size(),
                  [&] { return normal(random); });
  for (int64_t i = 0; i < size; ++i) {
    batch.labels.push_back(static_cast<uint8_t>(i % kSmall.classes));
  }
  return batch;
}

Parameters SmallParameters() {
  Parameters parameters = *InitialParameters(kSmall, /*seed=*/7);
  for (const size_t bias : {1, 3}) {
    std::ranges::fill(parameters[bias].mutable_elements<float>(), 0.1F);
  }
  return parameters;
}

class GradientTest : public ::testing::TestWithParam<size_t> {};

TEST_P(GradientTest, EqualsNumericGradient) {
  const Parameters parameters = SmallParameters();
  const Batch batch = RandomBatch(6);
  const std::vector<double> expected =
      NumericGradient(ToDoubles(parameters), GetParam(), batch);

  ASSERT_OK_AND_ASSIGN(const Gradient gradient,
                       ComputeGradient(parameters, batch));

  EXPECT_THAT(gradient.sums[GetParam()].elements<float>(),
              ::testing::Pointwise(::testing::FloatNear(2e-5F), expected));
}

INSTANTIATE_TEST_SUITE_P(EveryParameter, GradientTest,
                         ::testing::Range<size_t>(0, kNumParameters));

TEST(NetworkTest, LossIsTheSumOverTheBatch) {
  const Parameters parameters = SmallParameters();
  const Batch batch = RandomBatch(6);

  ASSERT_OK_AND_ASSIGN(const Gradient gradient,
                       ComputeGradient(parameters, batch));

  EXPECT_NEAR(gradient.loss_sum, BatchLoss(ToDoubles(parameters), batch), 1e-4);
}

TEST(NetworkTest, LargeScoresDoNotOverflow) {
  Parameters parameters = SmallParameters();
  parameters[3].mutable_elements<float>()[2] = 1e6F;

  ASSERT_OK_AND_ASSIGN(const Gradient gradient,
                       ComputeGradient(parameters, RandomBatch(4)));

  EXPECT_TRUE(std::isfinite(gradient.loss_sum));
}

TEST(NetworkTest, CountsImagesWhoseLabelScoresHighest) {
  Parameters parameters = SmallParameters();
  parameters[3].mutable_elements<float>()[2] = 1e6F;
  const Batch batch = RandomBatch(8);  // two images of each class

  EXPECT_EQ(CountCorrect(parameters, batch), 2);
}

TEST(NetworkTest, StepsAgainstTheGradientLowerTheLoss) {
  Parameters parameters = SmallParameters();
  const Batch batch = RandomBatch(8);
  const double initial_loss = BatchLoss(ToDoubles(parameters), batch);

  for (int step = 0; step < 300; ++step) {
    ASSERT_OK_AND_ASSIGN(const Gradient gradient,
                         ComputeGradient(parameters, batch));
    for (size_t i = 0; i < kNumParameters; ++i) {
      std::ranges::transform(
          parameters[i].elements<float>(), gradient.sums[i].elements<float>(),
          parameters[i].mutable_elements<float>().begin(),
          [](float weight, float slope) { return weight - 0.05F * slope; });
    }
  }

  EXPECT_LT(BatchLoss(ToDoubles(parameters), batch), initial_loss / 10);
  EXPECT_EQ(CountCorrect(parameters, batch), batch.size());
}

TEST(InitialParametersTest, EqualSeedsGiveEqualWeights) {
  ASSERT_OK_AND_ASSIGN(const Parameters one, InitialParameters(kSmall, 1));
  ASSERT_OK_AND_ASSIGN(const Parameters same, InitialParameters(kSmall, 1));
  ASSERT_OK_AND_ASSIGN(const Parameters other, InitialParameters(kSmall, 2));

  EXPECT_THAT(one[0].elements<float>(),
              ElementsAreArray(same[0].elements<float>()));
  EXPECT_THAT(one[0].elements<float>(),
              Not(ElementsAreArray(other[0].elements<float>())));
}

TEST(InitialParametersTest, WeightsHaveTheDeviationOfHe) {
  ASSERT_OK_AND_ASSIGN(const Parameters parameters,
                       InitialParameters(NetworkSize{}, 1));

  double squares = 0;
  for (const float weight : parameters[0].elements<float>()) {
    squares += weight * weight;
  }
  EXPECT_NEAR(squares / parameters[0].num_elements(), 2.0 / 784, 1e-4);
  EXPECT_THAT(parameters[1].elements<float>(), Each(0.0F));
  EXPECT_THAT(parameters[3].elements<float>(), Each(0.0F));
}

TEST(CheckParametersTest, InitialParametersFit) {
  ASSERT_OK_AND_ASSIGN(const Parameters parameters,
                       InitialParameters(kSmall, 1));

  EXPECT_OK(CheckParameters(kSmall, parameters));
}

TEST(CheckParametersTest, OtherShapeIsInvalid) {
  Parameters parameters = SmallParameters();
  std::swap(parameters[0], parameters[2]);

  EXPECT_THAT(
      CheckParameters(kSmall, parameters),
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr("\"fc1.weight\": expected f32[5,7], got f32[7,4]")));
}

TEST(CheckParametersTest, OtherDTypeIsInvalid) {
  Parameters parameters = SmallParameters();
  ASSERT_OK_AND_ASSIGN(parameters[1], Tensor::Filled(DType::kI32, Shape{7}, 0));

  EXPECT_THAT(CheckParameters(kSmall, parameters),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("i32[7]")));
}

}  // namespace
}  // namespace tensorkv::fashion_mnist
