// The sums that rules make over keys and rows: the same bits everywhere.

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/supported_kernels.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/testing/device_tensors.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

struct KeyOfRows {
  std::string rule;
  Shape shape;
};

// Rows shorter and longer than the lanes, a part and several parts; more parts
// than lanes; and keys without rows or elements.
std::vector<KeyOfRows> Keys() {
  std::vector<KeyOfRows> keys;
  for (const char* rule :
       {"groupadagrad(learning_rate=0.5)", "lars(momentum=0.9, eta=0.1)",
        "lamb(weight_decay=0.1)", "lans(weight_decay=0.1)",
        "adafactor(weight_decay=0.1)"}) {
    for (const Shape& shape :
         {Shape({}), Shape({0, 4}), Shape({4, 0}), Shape({300, 7}),
          Shape({7, 300}), Shape({3, 2, 20'000})}) {
      keys.push_back({rule, shape});
    }
  }
  keys.push_back({"lans", {129, 16 * 1024}});
  keys.push_back({"groupadagrad", {20'000, 3}});
  // Columns of several parts, as many as there may be, and of parts as short as
  // they may be; of one part that might be almost two; and more sums of parts
  // than are in the host's memory at a time.
  for (const Shape& shape :
       {Shape({40'000}), Shape({9000, 130}), Shape({129, 2000}),
        Shape({127, 2000}), Shape({16'500, 128}), Shape({130, 66'000})}) {
    keys.push_back({"adafactor", shape});
  }
  return keys;
}

absl::StatusOr<Tensor> Random(const Shape& shape, std::mt19937& random) {
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(DType::kF32, shape));
  std::uniform_real_distribution<float> floats(-1, 1);
  for (float& x : tensor.mutable_elements<float>()) x = floats(random);
  return tensor;
}

constexpr int kNumUpdates = 2;

// A value, and the gradients of its updates.
absl::StatusOr<std::vector<Tensor>> InputsOf(const KeyOfRows& key) {
  std::mt19937 random(1);
  std::vector<Tensor> inputs;
  for (int i = 0; i < 1 + kNumUpdates; ++i) {
    ASSIGN_OR_RETURN(inputs.emplace_back(), Random(key.shape, random));
  }
  return inputs;
}

void AppendBytes(const Tensor& tensor, std::string* bytes) {
  bytes->append(tensor.data(), tensor.size_bytes());
}

// Value and states after the updates.
absl::StatusOr<std::string> BytesOf(Backend& backend, const KeyOfRows& key,
                                    const std::vector<Tensor>& inputs) {
  ASSIGN_OR_RETURN(const RuleSpec spec, ParseRuleSpec(key.rule));
  ASSIGN_OR_RETURN(const UpdateRule rule, UpdateRule::Create(spec));
  ASSIGN_OR_RETURN(Tensor value, ToDevice(backend, inputs[0]));
  std::vector<Tensor> states;
  std::vector<MutableTensorView> views;
  for (const StateSpec& state : rule.states()) {
    ASSIGN_OR_RETURN(const Tensor zeros,
                     Tensor::Filled(DType::kF32, state.ShapeFor(key.shape), 0));
    ASSIGN_OR_RETURN(states.emplace_back(), ToDevice(backend, zeros));
    views.push_back(states.back().mutable_view());
  }
  for (uint64_t t = 1; t <= kNumUpdates; ++t) {
    ASSIGN_OR_RETURN(const Tensor pushed, ToDevice(backend, inputs[t]));
    const std::vector<TensorView> contributions = {pushed.view()};
    RETURN_IF_ERROR(backend.Apply(
        {{.rule = &rule,
          .update_count = t,
          .stored = value.view(),
          .contributions = contributions,
          .states = views,
          .num_rows = key.shape.rank() > 0 ? key.shape.dimensions()[0] : 1,
          .value = value.mutable_view()}}));
  }
  std::string bytes;
  ASSIGN_OR_RETURN(const Tensor result, ToHost(backend, value));
  AppendBytes(result, &bytes);
  for (const Tensor& state : states) {
    ASSIGN_OR_RETURN(const Tensor on_host, ToHost(backend, state));
    AppendBytes(on_host, &bytes);
  }
  return bytes;
}

TEST(KeySumsTest, AreTheSameOnEveryBackend) {
  FakeGpu gpu;
  std::vector<std::unique_ptr<Backend>> backends;
  for (const KernelTable* kernels : SupportedKernels()) {
    backends.push_back(std::make_unique<CpuBackend>(1, *kernels));
  }
  backends.push_back(std::make_unique<CpuBackend>(4));
  ASSERT_OK_AND_ASSIGN(
      auto on_gpu, CudaBackend::Create(gpu.Open(), {.quota_bytes = 256 << 20}));
  backends.push_back(std::move(on_gpu));

  for (const KeyOfRows& key : Keys()) {
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> inputs, InputsOf(key));
    std::vector<std::string> bytes;
    for (const auto& backend : backends) {
      ASSERT_OK_AND_ASSIGN(bytes.emplace_back(),
                           BytesOf(*backend, key, inputs));
    }
    for (size_t i = 1; i < bytes.size(); ++i) {
      EXPECT_TRUE(bytes[i] == bytes[0])
          << key.rule << " " << key.shape.ToString() << " " << i;
    }
  }
}

// The formulas of rule.proto, for a matrix of doubles.
class AdafactorModel {
 public:
  AdafactorModel(std::vector<double> w, size_t num_columns)
      : w_(std::move(w)),
        rows_(w_.size() / num_columns),
        columns_(num_columns) {}

  // With learning_rate 0.5, weight_decay 0.1 and clip_threshold 0.7.
  void Update(double t, const std::vector<double>& g) {
    const double beta2 = 1 - std::pow(t, -0.8);
    std::vector<double> row_sums(rows_.size());
    std::vector<double> column_sums(columns_.size());
    for (size_t i = 0; i < w_.size(); ++i) {
      row_sums[i / columns_.size()] += g[i] * g[i] + 1e-30;
      column_sums[i % columns_.size()] += g[i] * g[i] + 1e-30;
    }
    Mix(beta2, row_sums, columns_.size(), rows_);
    Mix(beta2, column_sums, rows_.size(), columns_);
    double mean = 0;
    for (const double row : rows_) mean += row / rows_.size();
    std::vector<double> u(w_.size());
    for (size_t i = 0; i < u.size(); ++i) {
      u[i] = g[i] / std::sqrt(rows_[i / columns_.size()] *
                              columns_[i % columns_.size()] / mean);
    }
    const double step = std::min(0.5, 1 / std::sqrt(t)) *
                        std::max(1e-3, RootMeanSquare(w_)) /
                        std::max(1.0, RootMeanSquare(u) / 0.7);
    for (size_t i = 0; i < u.size(); ++i) {
      w_[i] -= 0.5 * 0.1 * w_[i] + step * u[i];
    }
  }

  const std::vector<double>& w() const { return w_; }

 private:
  static void Mix(double beta2, const std::vector<double>& sums, size_t count,
                  std::vector<double>& means) {
    for (size_t i = 0; i < means.size(); ++i) {
      means[i] = beta2 * means[i] + (1 - beta2) * sums[i] / count;
    }
  }
  static double RootMeanSquare(const std::vector<double>& x) {
    double sum = 0;
    for (const double each : x) sum += each * each;
    return std::sqrt(sum / x.size());
  }

  std::vector<double> w_;
  std::vector<double> rows_;
  std::vector<double> columns_;
};

// The largest difference to the model after 20 updates, relative to the
// largest element.
double AdafactorError(DType dtype, int64_t num_rows, int64_t num_columns) {
  const UpdateRule rule = *UpdateRule::Create({"adafactor",
                                               {{"learning_rate", 0.5},
                                                {"weight_decay", 0.1},
                                                {"clip_threshold", 0.7}}});
  std::mt19937 random(7);
  std::uniform_real_distribution<float> floats(-1, 1);
  const auto draw = [&] {
    std::vector<double> elements(num_rows * num_columns);
    for (double& x : elements) x = floats(random);
    return elements;
  };
  CpuBackend backend(2);
  const std::vector<double> start = draw();
  Tensor w = TensorOf({num_rows, num_columns}, start, dtype);
  Tensor rows = Full({num_rows}, 0, dtype);
  Tensor columns = Full({num_columns}, 0, dtype);
  const std::vector<MutableTensorView> states = {rows.mutable_view(),
                                                 columns.mutable_view()};
  AdafactorModel model(start, num_columns);
  for (uint64_t t = 1; t <= 20; ++t) {
    const std::vector<double> gradient = draw();
    const Tensor pushed = TensorOf({num_rows, num_columns}, gradient, dtype);
    const std::vector<TensorView> contributions = {pushed.view()};
    EXPECT_OK(backend.Apply({{.rule = &rule,
                              .update_count = t,
                              .stored = w.view(),
                              .contributions = contributions,
                              .states = states,
                              .num_rows = num_rows,
                              .value = w.mutable_view()}}));
    model.Update(t, gradient);
  }
  const std::vector<double> actual = ElementsOf(w);
  double error = 0;
  double largest = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    error = std::max(error, std::abs(actual[i] - model.w()[i]));
    largest = std::max(largest, std::abs(model.w()[i]));
  }
  return error / largest;
}

TEST(KeySumsTest, AdafactorStaysNearItsModel) {
  for (const auto& [rows, columns] :
       {std::pair(1, 1), {40, 1}, {1, 40}, {13, 300}, {300, 13}, {20'000, 2}}) {
    EXPECT_LE(AdafactorError(DType::kF32, rows, columns), 2e-6) << rows;
    EXPECT_LE(AdafactorError(DType::kF64, rows, columns), 1e-14) << rows;
  }
}

// By hand: w = (3, 4), g = (0.6, 0.8).
TEST(KeySumsTest, LarsMovesByTheRatioOfTheNorms) {
  const UpdateRule lars = *UpdateRule::Create(
      {"lars", {{"learning_rate", 1}, {"eta", 0.5}, {"epsilon", 0}}});
  std::vector<float> value = {3, 4};
  std::vector<float> gradient = {0.6f, 0.8f};
  std::vector<float> momentum = {0, 0};
  const std::vector<TensorView> contributions = {
      {DType::kF32, 2, gradient.data()}};
  const std::vector<MutableTensorView> states = {
      {DType::kF32, 2, momentum.data()}};
  CpuBackend backend(1);

  ASSERT_OK(backend.Apply({{.rule = &lars,
                            .stored = {DType::kF32, 2, value.data()},
                            .contributions = contributions,
                            .states = states,
                            .value = {DType::kF32, 2, value.data()}}}));

  // The ratio is 0.5 * 5 / 1.
  EXPECT_THAT(value, ::testing::Pointwise(::testing::FloatNear(1e-6),
                                          std::vector<float>{1.5, 2}));
}

TEST(KeySumsTest, StateOfRowsMustHaveOneElementPerRow) {
  const UpdateRule rule = *UpdateRule::Create({"groupadagrad"});
  std::vector<float> value(6), history(6);
  const std::vector<TensorView> contributions = {
      {DType::kF32, 6, value.data()}};
  std::vector<MutableTensorView> states = {{DType::kF32, 3, history.data()}};
  TensorUpdate update = {.rule = &rule,
                         .stored = {DType::kF32, 6, value.data()},
                         .contributions = contributions,
                         .states = states,
                         .num_rows = 3,
                         .value = {DType::kF32, 6, value.data()}};
  CpuBackend backend(1);

  EXPECT_OK(backend.Apply({update}));
  update.num_rows = 2;
  EXPECT_THAT(backend.Apply({update}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::HasSubstr("state 0: expected 2 elements")));
  update.num_rows = 4;
  EXPECT_THAT(backend.Apply({update}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::HasSubstr("got 4 rows")));
}

}  // namespace
}  // namespace tensorkv::testing
