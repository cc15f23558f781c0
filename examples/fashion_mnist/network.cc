#include "examples/fashion_mnist/network.h"

#include <cmath>
#include <eigen3/Eigen/Dense>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv::fashion_mnist {
namespace {

using ConstMatrixMap = Eigen::Map<const Matrix>;
using MatrixMap = Eigen::Map<Matrix>;
using RowVector = Eigen::Matrix<float, 1, Eigen::Dynamic>;

std::array<Shape, kNumParameters> ShapesOf(const NetworkSize& size) {
  return {Shape{size.inputs, size.hidden}, Shape{size.hidden},
          Shape{size.hidden, size.classes}, Shape{size.classes}};
}

// A bias is a matrix of one row.
int64_t Rows(const Tensor& tensor) {
  return tensor.shape().rank() == 2 ? tensor.shape().dimensions()[0] : 1;
}

int64_t Columns(const Tensor& tensor) {
  return tensor.shape().dimensions().back();
}

ConstMatrixMap AsMatrix(const Tensor& tensor) {
  return {tensor.elements<float>().data(), Rows(tensor), Columns(tensor)};
}

MatrixMap AsMutableMatrix(Tensor& tensor) {
  return {tensor.mutable_elements<float>().data(), Rows(tensor),
          Columns(tensor)};
}

absl::StatusOr<Parameters> AllocateLike(const Parameters& parameters) {
  Parameters result;
  for (size_t i = 0; i < kNumParameters; ++i) {
    ASSIGN_OR_RETURN(result[i],
                     Tensor::Allocate(DType::kF32, parameters[i].shape()));
  }
  return result;
}

void FillNormal(double deviation, std::mt19937_64& random, Tensor& tensor) {
  std::normal_distribution<float> normal(0, static_cast<float>(deviation));
  for (float& element : tensor.mutable_elements<float>()) {
    element = normal(random);
  }
}

Matrix Dense(const Matrix& input, const Tensor& weights, const Tensor& bias) {
  Matrix output = input * AsMatrix(weights);
  output.rowwise() += AsMatrix(bias).row(0);
  return output;
}

Matrix Hidden(const Parameters& parameters, const Matrix& images) {
  return Dense(images, parameters[0], parameters[1]).cwiseMax(0.0F);
}

Matrix Scores(const Parameters& parameters, const Matrix& hidden) {
  return Dense(hidden, parameters[2], parameters[3]);
}

// Turns scores into the gradient of the loss by them; returns the loss.
double SoftmaxCrossEntropy(absl::Span<const uint8_t> labels, Matrix& scores) {
  double loss_sum = 0;
  for (Eigen::Index i = 0; i < scores.rows(); ++i) {
    auto row = scores.row(i);
    // The highest score becomes zero, so that exp cannot overflow.
    row.array() -= row.maxCoeff();
    const float label_score = row(labels[i]);
    row = row.array().exp();
    const float sum = row.sum();
    loss_sum += std::log(sum) - label_score;
    row /= sum;
    row(labels[i]) -= 1;
  }
  return loss_sum;
}

// Computes the gradient of a dense layer by its weights and bias.
void DenseGradient(const Matrix& input, const Matrix& output_gradient,
                   Tensor& weights, Tensor& bias) {
  AsMutableMatrix(weights).noalias() = input.transpose() * output_gradient;
  AsMutableMatrix(bias) = output_gradient.colwise().sum();
}

}  // namespace

absl::StatusOr<Parameters> InitialParameters(const NetworkSize& size,
                                             uint64_t seed) {
  Parameters parameters;
  const std::array<Shape, kNumParameters> shapes = ShapesOf(size);
  for (size_t i = 0; i < kNumParameters; ++i) {
    ASSIGN_OR_RETURN(parameters[i], Tensor::Filled(DType::kF32, shapes[i], 0));
  }
  std::mt19937_64 random(seed);
  for (const size_t weights : {0, 2}) {
    const double fan_in = static_cast<double>(Rows(parameters[weights]));
    FillNormal(std::sqrt(2 / fan_in), random, parameters[weights]);
  }
  return parameters;
}

absl::Status CheckParameters(const NetworkSize& size,
                             const Parameters& parameters) {
  const std::array<Shape, kNumParameters> shapes = ShapesOf(size);
  for (size_t i = 0; i < kNumParameters; ++i) {
    if (parameters[i].dtype() != DType::kF32 ||
        parameters[i].shape() != shapes[i]) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter \"", kParameterKeys[i], "\": expected ",
                       Description(DType::kF32, shapes[i]), ", got ",
                       parameters[i].Description()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Gradient> ComputeGradient(const Parameters& parameters,
                                         const Batch& batch) {
  Gradient gradient;
  ASSIGN_OR_RETURN(gradient.sums, AllocateLike(parameters));
  const Matrix hidden = Hidden(parameters, batch.images);
  Matrix scores = Scores(parameters, hidden);
  gradient.loss_sum = SoftmaxCrossEntropy(batch.labels, scores);
  DenseGradient(hidden, scores, gradient.sums[2], gradient.sums[3]);

  Matrix hidden_gradient = scores * AsMatrix(parameters[2]).transpose();
  hidden_gradient.array() *= (hidden.array() > 0).cast<float>();
  DenseGradient(batch.images, hidden_gradient, gradient.sums[0],
                gradient.sums[1]);
  return gradient;
}

int64_t CountCorrect(const Parameters& parameters, const Batch& batch) {
  const Matrix scores = Scores(parameters, Hidden(parameters, batch.images));
  int64_t correct = 0;
  for (Eigen::Index i = 0; i < scores.rows(); ++i) {
    Eigen::Index best = 0;
    scores.row(i).maxCoeff(&best);
    correct += best == batch.labels[i] ? 1 : 0;
  }
  return correct;
}

}  // namespace tensorkv::fashion_mnist
