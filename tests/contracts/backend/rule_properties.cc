#include "tests/contracts/backend/rule_properties.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "kernels/hyperparameter.h"
#include "kernels/rule_table.h"
#include "tests/contracts/backend/exact_elements.h"
#include "tests/testing/device_tensors.h"

namespace tensorkv::testing {
namespace {

constexpr int64_t kRows = 4;
constexpr int64_t kColumns = 5;
constexpr char kRate[] = "learning_rate";
// Squares of what is larger, over small quotients, are rightly infinite.
constexpr double kOrdinary = 1e8;

// A row of the table.
struct RuleRow {
  RuleKind kind;
  std::string name;
  // With a learning rate in that range.
  bool is_optimizer;
  Range rate_range;
  std::vector<Hyperparameter> own;
};

struct KeysOfRule {
  bool is_optimizer = false;
  Range rate_range = kFinite;
};

std::vector<RuleRow> AllRules() {
  constexpr KeysOfRule kAnyKeys;
  constexpr KeysOfRule kFloatKeys;
#define OPTIMIZER(rate, range) \
  KeysOfRule { true, range }
#define OWN(...) \
  { __VA_ARGS__ }
#define TENSORKV_ROW(Kind, Functor, name, keys, own, states, source) \
  {RuleKind::k##Kind, name, (keys).is_optimizer, (keys).rate_range, own},
  return {TENSORKV_RULES(TENSORKV_ROW)};
#undef TENSORKV_ROW
#undef OWN
#undef OPTIMIZER
}

using Random = std::mt19937_64;

template <typename T>
T OneOf(Random& random, const std::vector<T>& all) {
  return all[random() % all.size()];
}

// A number out of `range`, often one of its ends.
double NumberIn(const Range& range, Random& random) {
  while (true) {
    const double number =
        OneOf<double>(random, {-1, 0, 1e-300, 1e-40, 1e-12, 1e-8, 0.04, 0.5,
                               0.9, 0.999, 1 - 1e-9, 1 - 0x1p-53, 1, 2, 10});
    if (range.contains(number)) return number;
  }
}

// The rule with random hyperparameters. Of rows with one name those count of
// which it is.
UpdateRule RandomRule(const RuleRow& row, Random& random) {
  if (row.kind == RuleKind::kExpression) {
    return *UpdateRule::Create(
        {.name = row.name, .expression = "state m; m = m + grad; stored -= m"});
  }
  while (true) {
    RuleSpec spec = {row.name};
    Hyperparameters& h = spec.hyperparameters;
    for (const Hyperparameter& own : row.own) {
      h[std::string(own.name)] = NumberIn(own.range, random);
    }
    if (row.is_optimizer) {
      h[kRate] = NumberIn(row.rate_range, random);
      h["weight_decay"] = OneOf<double>(random, {0, 1e-40, 1e-4, 1});
      h["rescale_grad"] = OneOf<double>(random, {-1, 0, 1e-40, 1, 10});
      h["clip_gradient"] = OneOf<double>(random, {-1, -1, 0, 1e-40, 0.5});
    }
    const auto rule = UpdateRule::Create(spec);
    if (rule.ok() && rule->kind() == row.kind) return *rule;
  }
}

absl::Status Failed(const UpdateRule& rule, DType dtype,
                    absl::string_view what) {
  return absl::InternalError(
      absl::StrCat(rule.spec().ToString(), " of ", NameOf(dtype), ": ", what));
}

// A key of rows under a rule, on the device.
class Key {
 public:
  static absl::StatusOr<Key> Create(Backend& backend, const UpdateRule& rule,
                                    const Tensor& value) {
    Key key(backend, rule);
    const DType wide = AccumulateType(value.dtype());
    ASSIGN_OR_RETURN(Tensor master, Tensor::Filled(wide, value.shape(), 0));
    for (int64_t i = 0; i < value.num_elements(); ++i) {
      SetFloat(master, i, FloatAt(value, i));
    }
    ASSIGN_OR_RETURN(key.value_, ToDevice(backend, value));
    ASSIGN_OR_RETURN(key.master_, ToDevice(backend, master));
    for (const StateSpec& spec : rule.states()) {
      ASSIGN_OR_RETURN(const Tensor zeros,
                       Tensor::Filled(wide, spec.ShapeFor(value.shape()), 0));
      ASSIGN_OR_RETURN(key.states_.emplace_back(), ToDevice(backend, zeros));
    }
    return key;
  }

  // Updates all of the key.
  absl::Status Update(const Tensor& gradient, uint64_t t,
                      const Multipliers& multipliers = {}) {
    return Update(rule_, gradient, t, multipliers);
  }
  absl::Status Update(const UpdateRule& rule, const Tensor& gradient,
                      uint64_t t, const Multipliers& multipliers = {}) {
    ASSIGN_OR_RETURN(const Tensor device, ToDevice(*backend_, gradient));
    return Apply(rule, device.view(), t, multipliers, 0, num_rows());
  }

  // Updates one row.
  absl::Status UpdateRow(int64_t row, const Tensor& gradient, uint64_t t) {
    ASSIGN_OR_RETURN(const Tensor device, ToDevice(*backend_, gradient));
    return Apply(rule_, device.view(), t, {}, row, 1);
  }

  // All that there is of it, on the host: the value and its master, if it has
  // one, then the states.
  absl::StatusOr<std::vector<Tensor>> Tensors() const {
    std::vector<Tensor> tensors;
    ASSIGN_OR_RETURN(tensors.emplace_back(), ToHost(*backend_, value_));
    if (has_master()) {
      ASSIGN_OR_RETURN(tensors.emplace_back(), ToHost(*backend_, master_));
    }
    for (const Tensor& state : states_) {
      ASSIGN_OR_RETURN(tensors.emplace_back(), ToHost(*backend_, state));
    }
    return tensors;
  }
  // The bytes of the value, and of its master.
  absl::StatusOr<std::string> ValueBytes() const {
    ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, Tensors());
    std::string bytes;
    for (int i = 0; i < (has_master() ? 2 : 1); ++i) {
      bytes.append(tensors[i].data(), tensors[i].size_bytes());
    }
    return bytes;
  }

  int64_t num_rows() const { return value_.shape().dimensions()[0]; }

 private:
  Key(Backend& backend, const UpdateRule& rule)
      : backend_(&backend), rule_(rule) {}

  bool has_master() const { return rule_.keeps_master(value_.dtype()); }

  // Some rows of a tensor that has as many rows as the value has.
  MutableTensorView Rows(Tensor& tensor, int64_t first, int64_t count) {
    const int64_t width = tensor.num_elements() / num_rows();
    MutableTensorView view = tensor.mutable_view();
    view.data =
        static_cast<char*>(view.data) + first * width * SizeOf(tensor.dtype());
    view.num_elements = count * width;
    return view;
  }

  absl::Status Apply(const UpdateRule& rule, TensorView gradient, uint64_t t,
                     const Multipliers& multipliers, int64_t first,
                     int64_t count) {
    std::vector<MutableTensorView> states;
    for (size_t i = 0; i < states_.size(); ++i) {
      const bool is_whole = rule.states()[i].shape == StateShape::kPerColumn;
      states.push_back(is_whole ? states_[i].mutable_view()
                                : Rows(states_[i], first, count));
    }
    const MutableTensorView value = Rows(value_, first, count);
    return backend_->Apply(
        {{.rule = &rule,
          .update_count = t,
          .multipliers = multipliers,
          .seed = 7,
          .first_element = static_cast<uint64_t>(first * kColumns),
          .stored = {value.dtype, value.num_elements, value.data},
          .contributions = {&gradient, 1},
          .states = states,
          .num_rows = count,
          .master =
              has_master() ? Rows(master_, first, count) : MutableTensorView(),
          .value = value}});
  }

  Backend* backend_;
  UpdateRule rule_;
  Tensor value_;
  Tensor master_;
  std::vector<Tensor> states_;
};

Tensor RandomTensor(DType dtype, Shape shape, Random& random) {
  Tensor tensor = *Tensor::Allocate(dtype, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double magnitude =
        OneOf<double>(random, {0, 1e-45, 1e-40, 1e-20, 1e-3, 0.1, 1, 10});
    SetFloat(tensor, i, random() % 2 == 0 ? magnitude : -magnitude);
  }
  return tensor;
}

// The largest magnitude, infinite where there is a NaN.
double Largest(const std::vector<Tensor>& tensors) {
  double largest = 0;
  for (const Tensor& tensor : tensors) {
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      const double magnitude = std::abs(FloatAt(tensor, i));
      largest = std::max(largest, std::isnan(magnitude) ? HUGE_VAL : magnitude);
    }
  }
  return largest;
}

// A rule that makes no step at update `t`, with what multiplies its rate then.
struct FrozenRule {
  UpdateRule rule;
  Multipliers multipliers;
};
absl::StatusOr<std::vector<FrozenRule>> FrozenRules(const UpdateRule& rule,
                                                    uint64_t t) {
  RuleSpec spec = rule.spec();
  spec.schedule = {.name = "cosine",
                   .arguments = {{"max_updates", static_cast<double>(t)}}};
  ASSIGN_OR_RETURN(const UpdateRule scheduled, UpdateRule::Create(spec));
  ASSIGN_OR_RETURN(const UpdateRule stopped, rule.With({{kRate, 0}}));
  return std::vector<FrozenRule>{
      {stopped, {}}, {rule, {.learning_rate = 0}}, {scheduled, {}}};
}

absl::Status CheckFreezes(Backend& backend, const UpdateRule& rule, DType dtype,
                          uint64_t num_before, Random& random) {
  const Shape shape = {kRows, kColumns};
  const uint64_t t = num_before + 1;
  ASSIGN_OR_RETURN(const std::vector<FrozenRule> all, FrozenRules(rule, t));
  for (const FrozenRule& frozen : all) {
    ASSIGN_OR_RETURN(Key key, Key::Create(backend, rule,
                                          RandomTensor(dtype, shape, random)));
    for (uint64_t i = 1; i <= num_before; ++i) {
      RETURN_IF_ERROR(key.Update(RandomTensor(dtype, shape, random), i));
    }
    ASSIGN_OR_RETURN(const std::vector<Tensor> former, key.Tensors());
    if (Largest(former) >= kOrdinary) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::string before, key.ValueBytes());
    RETURN_IF_ERROR(key.Update(frozen.rule, RandomTensor(dtype, shape, random),
                               t, frozen.multipliers));
    ASSIGN_OR_RETURN(const std::string after, key.ValueBytes());
    if (after != before) {
      return Failed(frozen.rule, dtype,
                    absl::StrCat("expected the same value after update ", t,
                                 ", got another"));
    }
    RETURN_IF_ERROR(key.Update(RandomTensor(dtype, shape, random), t + 1));
    ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, key.Tensors());
    if (!std::isfinite(Largest(tensors))) {
      return Failed(rule, dtype, "expected finite elements after it, got none");
    }
  }
  return absl::OkStatus();
}

// The rules whose formulas have t, or a sum over the key: a row of such is not
// like a key that begins later.
bool CountsUpdates(const UpdateRule& rule) {
  const RuleSpec& spec = rule.spec();
  for (const char* name :
       {"average", "adam", "amsgrad", "adamw", "adamax", "nadam", "radam",
        "adabelief", "ftml", "sgld", "adafactor", "lamb", "lans"}) {
    if (spec.name == name) return true;
  }
  return false;
}

absl::Status CheckRows(Backend& backend, const UpdateRule& rule, DType dtype,
                       Random& random) {
  const Shape row_shape = {1, kColumns};
  const Tensor table = RandomTensor(dtype, {kRows, kColumns}, random);
  ASSIGN_OR_RETURN(Key key, Key::Create(backend, rule, table));
  std::vector<Key> keys;
  for (int64_t row = 0; row < kRows; ++row) {
    ASSIGN_OR_RETURN(
        const Tensor value,
        Tensor::CopyOf(dtype, row_shape,
                       table.data() + row * kColumns * SizeOf(dtype)));
    ASSIGN_OR_RETURN(Key row_key, Key::Create(backend, rule, value));
    keys.push_back(std::move(row_key));
  }
  // What the key of a row counts.
  std::vector<uint64_t> counts(kRows);
  for (uint64_t t = 1; t <= 8; ++t) {
    for (int64_t row = 0; row < kRows; ++row) {
      if (random() % 2 == 0) continue;
      const Tensor gradient = RandomTensor(dtype, row_shape, random);
      RETURN_IF_ERROR(key.UpdateRow(row, gradient, t));
      ++counts[row];
      RETURN_IF_ERROR(
          keys[row].Update(gradient, CountsUpdates(rule) ? t : counts[row]));
    }
  }
  std::string expected;
  for (const Key& row : keys) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, row.Tensors());
    expected.append(tensors[0].data(), tensors[0].size_bytes());
  }
  ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, key.Tensors());
  if (absl::string_view(tensors[0].data(), tensors[0].size_bytes()) ==
      expected) {
    return absl::OkStatus();
  }
  return Failed(rule, dtype,
                "expected rows like keys of their own, got others");
}

absl::Status CheckFinite(Backend& backend, const UpdateRule& rule, DType dtype,
                         Random& random) {
  const Shape shape = {kRows, kColumns};
  ASSIGN_OR_RETURN(
      Key key, Key::Create(backend, rule, RandomTensor(dtype, shape, random)));
  double largest = 0;
  for (uint64_t t = 1; t <= 6 && largest < kOrdinary; ++t) {
    RETURN_IF_ERROR(key.Update(RandomTensor(dtype, shape, random), t));
    ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, key.Tensors());
    largest = Largest(tensors);
    if (std::isfinite(largest)) continue;
    return Failed(rule, dtype,
                  absl::StrCat("expected finite elements after update ", t,
                               ", got NaN or infinity"));
  }
  return absl::OkStatus();
}

// Calls `check` with rules of every row of the table, many of each; of a row
// whose rules fail it tells the first that does.
template <typename Check>
absl::Status ForEveryRule(uint64_t seed, Check check) {
  constexpr int kRulesPerRow = 24;
  std::vector<std::string> failures;
  for (const RuleRow& row : AllRules()) {
    Random random(100 * seed + static_cast<uint64_t>(row.kind));
    absl::Status status;
    for (int i = 0; i < kRulesPerRow && status.ok(); ++i) {
      const DType dtype = OneOf<DType>(
          random, {DType::kF32, DType::kF32, DType::kF64, DType::kBF16});
      status = check(row, RandomRule(row, random), dtype, random);
    }
    if (!status.ok()) failures.emplace_back(status.message());
  }
  if (failures.empty()) return absl::OkStatus();
  return absl::InternalError(absl::StrJoin(failures, "\n"));
}

}  // namespace

absl::Status CheckRateOfZeroFreezes(Backend& backend) {
  return ForEveryRule(1, [&](const RuleRow& row, const UpdateRule& rule,
                             DType dtype, Random& random) {
    return row.is_optimizer
               ? CheckFreezes(backend, rule, dtype, random() % 4, random)
               : absl::OkStatus();
  });
}

absl::Status CheckFiniteStaysFinite(Backend& backend) {
  return ForEveryRule(2, [&](const RuleRow&, const UpdateRule& rule,
                             DType dtype, Random& random) {
    return CheckFinite(backend, rule, dtype, random);
  });
}

absl::Status CheckRowsAreKeysOfTheirOwn(Backend& backend) {
  return ForEveryRule(3, [&](const RuleRow&, const UpdateRule& rule,
                             DType dtype, Random& random) {
    // The store refuses rows for these, and noise differs from row to row.
    const bool takes_rows = !rule.takes_sums() && !rule.takes_seed();
    return takes_rows ? CheckRows(backend, rule, dtype, random)
                      : absl::OkStatus();
  });
}

}  // namespace tensorkv::testing
