#include "tests/contracts/backend/rule_steps.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "tests/contracts/backend/exact_elements.h"
#include "tests/contracts/backend/update_oracle.h"
#include "tests/testing/device_tensors.h"

namespace tensorkv::testing {
namespace {

constexpr uint64_t kNumUpdates = 20;
constexpr Multipliers kMultipliers = {.learning_rate = 0.5, .weight_decay = 2};

constexpr double kWarmUp = 5;
constexpr double kMaxUpdates = 15;
constexpr double kLastRate = 0.02;

// The learning rate of a warm-up and a polynomial of degree 2.
double ScheduledRate(double base, double t) {
  if (t < kWarmUp) return base * t / kWarmUp;
  if (t > kMaxUpdates) return kLastRate;
  const double left = (kMaxUpdates - t) / (kMaxUpdates - kWarmUp);
  return kLastRate + (base - kLastRate) * left * left;
}

// One key under one rule, on a device and beside it.
class Run {
 public:
  Run(Backend& backend, const OracleRule& row, DType dtype, bool is_scheduled,
      uint64_t seed)
      : backend_(backend),
        row_(row),
        dtype_(dtype),
        is_scheduled_(is_scheduled),
        random_(seed) {}

  absl::StatusOr<RuleError> Errors() {
    RETURN_IF_ERROR(Begin());
    for (uint64_t t = 1; t <= kNumUpdates; ++t) RETURN_IF_ERROR(Update(t));
    ASSIGN_OR_RETURN(const Tensor result,
                     ToHost(backend_, has_master() ? master_ : value_));
    double error = 0;
    double largest = 0;
    for (size_t i = 0; i < elements_.size(); ++i) {
      const auto expected = static_cast<double>(elements_[i].w);
      error = std::max(error, std::abs(FloatAt(result, i) - expected));
      largest = std::max(largest, std::abs(expected));
    }
    return RuleError{row_.spec.ToString(), dtype_, error / largest,
                     dtype_ == DType::kF64 ? 1e-14 : 2e-6};
  }

 private:
  bool has_master() const { return rule_.keeps_master(dtype_); }

  absl::Status Begin() {
    RuleSpec spec = row_.spec;
    if (is_scheduled_) {
      spec.schedule = {.name = "polynomial",
                       .arguments = {{"max_updates", kMaxUpdates},
                                     {"warmup_updates", kWarmUp},
                                     {"final_learning_rate", kLastRate}}};
    }
    ASSIGN_OR_RETURN(rule_, UpdateRule::Create(spec));
    ASSIGN_OR_RETURN(
        shape_, Shape::Create({Below(40) + 1, Below(20) + 1, Below(3) + 1}));
    ASSIGN_OR_RETURN(const Tensor value, Random(-2, 2));
    const DType accumulate = AccumulateType(dtype_);
    ASSIGN_OR_RETURN(Tensor wide, Tensor::Filled(accumulate, shape_, 0));
    for (const StateSpec& spec : rule_.states()) {
      ASSIGN_OR_RETURN(const Tensor zeros,
                       Tensor::Filled(accumulate, spec.ShapeFor(shape_), 0));
      ASSIGN_OR_RETURN(states_.emplace_back(), ToDevice(backend_, zeros));
    }
    elements_.resize(value.num_elements());
    for (size_t i = 0; i < elements_.size(); ++i) {
      elements_[i].w = FloatAt(value, i);
      elements_[i].states.resize(row_.states.size());
      SetFloat(wide, i, FloatAt(value, i));
    }
    ASSIGN_OR_RETURN(value_, ToDevice(backend_, value));
    ASSIGN_OR_RETURN(master_, ToDevice(backend_, wide));
    return absl::OkStatus();
  }

  absl::Status Update(uint64_t t) {
    std::vector<Tensor> contributions(2);
    std::vector<TensorView> views;
    std::vector<double> sums(elements_.size());
    for (Tensor& contribution : contributions) {
      ASSIGN_OR_RETURN(const Tensor host, Random(-1, 1));
      for (size_t i = 0; i < sums.size(); ++i) {
        sums[i] = RoundTo(AccumulateType(dtype_), sums[i] + FloatAt(host, i));
      }
      ASSIGN_OR_RETURN(contribution, ToDevice(backend_, host));
      views.push_back(contribution.view());
    }
    std::vector<MutableTensorView> states;
    for (Tensor& state : states_) states.push_back(state.mutable_view());
    RETURN_IF_ERROR(backend_.Apply(
        {{.rule = &rule_,
          .update_count = t,
          .multipliers = kMultipliers,
          .stored = value_.view(),
          .contributions = views,
          .states = states,
          .num_rows = shape_.dimensions()[0],
          .master = has_master() ? master_.mutable_view() : MutableTensorView(),
          .value = value_.mutable_view()}}));
    UpdateOracle(t, sums);
    return absl::OkStatus();
  }

  void UpdateOracle(uint64_t t, const std::vector<double>& sums) {
    Hyperparameters h = row_.spec.hyperparameters;
    if (h.count("learning_rate") != 0) {
      double& rate = h["learning_rate"];
      if (is_scheduled_) rate = ScheduledRate(rate, t);
      rate *= kMultipliers.learning_rate;
      h["weight_decay"] *= kMultipliers.weight_decay;
    }
    for (size_t i = 0; i < sums.size(); ++i) elements_[i].g = sums[i];
    const bool is_by_row = rule_.num_states() > 0 &&
                           rule_.states()[0].shape == StateShape::kPerRow;
    const size_t size =
        is_by_row ? sums.size() / shape_.dimensions()[0] : sums.size();
    for (size_t begin = 0; begin < sums.size(); begin += size) {
      Hyperparameters with_sums = h;
      if (row_.add_sums != nullptr) {
        row_.add_sums(&elements_[begin], size, t, with_sums);
      }
      for (size_t i = begin; i < begin + size; ++i) {
        row_.update(with_sums, t, elements_[i]);
      }
    }
  }

  int64_t Below(int64_t bound) {
    return std::uniform_int_distribution<int64_t>(0, bound - 1)(random_);
  }

  absl::StatusOr<Tensor> Random(double low, double high) {
    ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype_, shape_));
    std::uniform_real_distribution<double> floats(low, high);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      SetFloat(tensor, i, floats(random_));
    }
    return tensor;
  }

  Backend& backend_;
  const OracleRule& row_;
  const DType dtype_;
  const bool is_scheduled_;
  std::mt19937_64 random_;
  UpdateRule rule_;
  Shape shape_;
  Tensor value_;
  Tensor master_;
  std::vector<Tensor> states_;
  std::vector<OracleElement> elements_;
};

}  // namespace

absl::StatusOr<std::vector<RuleError>> ErrorsOfTwentyUpdates(Backend& backend) {
  std::vector<RuleError> errors;
  for (const OracleRule& row : OracleRules()) {
    for (const DType dtype :
         {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
      const bool is_rounded = !row.is_optimizer || !row.spec.keep_master;
      if (is_rounded && SizeOf(dtype) == 2) continue;
      const size_t number = errors.size();
      const bool is_scheduled =
          number % 2 == 1 && row.spec.hyperparameters.count("learning_rate");
      Run run(backend, row, dtype, is_scheduled, number);
      ASSIGN_OR_RETURN(errors.emplace_back(), run.Errors());
    }
  }
  return errors;
}

std::string TableOf(const std::vector<RuleError>& errors) {
  std::string table;
  for (const RuleError& error : errors) {
    absl::StrAppendFormat(&table, "%-5s %.2e  %s\n", NameOf(error.dtype),
                          error.relative_error, error.rule);
  }
  return table;
}

}  // namespace tensorkv::testing
