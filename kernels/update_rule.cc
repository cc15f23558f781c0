#include "kernels/update_rule.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

// What values a hyperparameter may have. Every range is finite.
struct Range {
  absl::string_view text;
  bool (*contains)(double value);
};

constexpr Range kFinite = {"finite", [](double x) { return std::isfinite(x); }};
constexpr Range kNotNegative = {
    "finite and >= 0", [](double x) { return std::isfinite(x) && x >= 0; }};
constexpr Range kUnit = {"in [0, 1)", [](double x) { return x >= 0 && x < 1; }};
constexpr Range kFlag = {"0 or 1", [](double x) { return x == 0 || x == 1; }};

struct Hyperparameter {
  absl::string_view name;
  double default_value;
  Range range;
};

constexpr Hyperparameter kAccumulate[] = {{"scale", 1, kFinite}};
constexpr int kScale = 0;

constexpr Hyperparameter kSgd[] = {{"learning_rate", 0.1, kFinite},
                                   {"momentum", 0, kUnit},
                                   {"weight_decay", 0, kFinite},
                                   {"rescale_grad", 1, kFinite},
                                   {"clip_gradient", -1, kFinite}};
constexpr int kMomentum = 1;

constexpr Hyperparameter kAdam[] = {
    {"learning_rate", 0.001, kFinite}, {"beta1", 0.9, kUnit},
    {"beta2", 0.999, kUnit},           {"epsilon", 1e-8, kNotNegative},
    {"weight_decay", 0, kFinite},      {"rescale_grad", 1, kFinite},
    {"clip_gradient", -1, kFinite}};

constexpr Hyperparameter kAdamW[] = {
    {"learning_rate", 0.001, kFinite}, {"beta1", 0.9, kUnit},
    {"beta2", 0.999, kUnit},           {"epsilon", 1e-6, kNotNegative},
    {"weight_decay", 0, kFinite},      {"rescale_grad", 1, kFinite},
    {"clip_gradient", -1, kFinite},    {"correct_bias", 1, kFlag}};

struct RuleRow {
  absl::string_view name;
  int num_states;
  bool is_optimizer;
  absl::Span<const Hyperparameter> hyperparameters;
};

// By kind. Rows of one name are variants of a rule; the name finds the first.
constexpr RuleRow kRules[] = {
    {"assign", 0, false, {}}, {"accumulate", 0, false, kAccumulate},
    {"sgd", 0, true, kSgd},   {"sgd", 1, true, kSgd},
    {"adam", 2, true, kAdam}, {"adamw", 2, true, kAdamW},
};
static_assert(std::size(kRules) == kNumRuleKinds);

const RuleRow& RowOf(RuleKind kind) { return kRules[static_cast<int>(kind)]; }

// Names come from peers: short and printable in messages.
std::string Quoted(absl::string_view name) {
  constexpr size_t kMaxShown = 64;
  return absl::StrCat("\"", absl::Utf8SafeCEscape(name.substr(0, kMaxShown)),
                      name.size() > kMaxShown ? "...\"" : "\"");
}

absl::Status UnknownRule(absl::string_view name) {
  std::vector<absl::string_view> known;
  for (const RuleRow& row : kRules) known.push_back(row.name);
  known.erase(std::unique(known.begin(), known.end()), known.end());
  return absl::InvalidArgumentError(absl::StrCat("rule: expected one of ",
                                                 absl::StrJoin(known, ", "),
                                                 ", got ", Quoted(name)));
}

absl::Status UnknownHyperparameter(const RuleRow& row, absl::string_view name) {
  if (row.hyperparameters.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        row.name, ": expected no hyperparameters, got ", Quoted(name)));
  }
  const std::string known = absl::StrJoin(
      row.hyperparameters, ", ", [](std::string* out, const auto& known) {
        absl::StrAppend(out, known.name);
      });
  return absl::InvalidArgumentError(
      absl::StrCat(row.name, ": expected hyperparameters out of ", known,
                   ", got ", Quoted(name)));
}

absl::StatusOr<RuleKind> FindRule(absl::string_view name) {
  for (int i = 0; i < kNumRuleKinds; ++i) {
    if (kRules[i].name == name) return static_cast<RuleKind>(i);
  }
  return UnknownRule(name);
}

absl::StatusOr<int> FindHyperparameter(const RuleRow& row,
                                       absl::string_view name) {
  for (size_t i = 0; i < row.hyperparameters.size(); ++i) {
    if (row.hyperparameters[i].name == name) return i;
  }
  return UnknownHyperparameter(row, name);
}

absl::Status CheckRange(const RuleRow& row, const Hyperparameter& parameter,
                        double value) {
  if (parameter.range.contains(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(row.name, ": ", parameter.name, " must be ",
                   parameter.range.text, ", got ", value));
}

// What i64 and double both hold exactly.
bool IsWholeNumber(double value) {
  constexpr double kMaxWhole = 9007199254740992.0;  // 2^53
  return std::trunc(value) == value && std::abs(value) <= kMaxWhole;
}

}  // namespace

absl::StatusOr<UpdateRule> UpdateRule::Create(const RuleSpec& spec) {
  UpdateRule rule;
  ASSIGN_OR_RETURN(rule.kind_, FindRule(spec.name));
  const RuleRow& row = RowOf(rule.kind_);
  for (size_t i = 0; i < row.hyperparameters.size(); ++i) {
    rule.values_[i] = row.hyperparameters[i].default_value;
  }
  for (const auto& [name, value] : spec.hyperparameters) {
    ASSIGN_OR_RETURN(const int index, FindHyperparameter(row, name));
    RETURN_IF_ERROR(CheckRange(row, row.hyperparameters[index], value));
    rule.values_[index] = value;
  }
  if (rule.kind_ == RuleKind::kSgd && rule.values_[kMomentum] != 0) {
    rule.kind_ = RuleKind::kSgdMomentum;
  }
  rule.spec_.name = spec.name;
  rule.spec_.keep_master = spec.keep_master;
  for (size_t i = 0; i < row.hyperparameters.size(); ++i) {
    rule.spec_.hyperparameters[std::string(row.hyperparameters[i].name)] =
        rule.values_[i];
  }
  return rule;
}

absl::StatusOr<UpdateRule> UpdateRule::With(
    const Hyperparameters& changed) const {
  RuleSpec spec = spec_;
  for (const auto& [name, value] : changed) spec.hyperparameters[name] = value;
  return Create(spec);
}

int UpdateRule::num_states() const { return RowOf(kind_).num_states; }

bool UpdateRule::keeps_master(DType dtype) const {
  return RowOf(kind_).is_optimizer && IsFloat(dtype) &&
         AccumulateType(dtype) != dtype && spec_.keep_master;
}

absl::Status UpdateRule::CheckTakes(DType dtype) const {
  if (IsFloat(dtype)) return absl::OkStatus();
  const RuleRow& row = RowOf(kind_);
  if (row.is_optimizer) {
    return absl::InvalidArgumentError(absl::StrCat(
        row.name, ": expected a key of a float dtype, got ", NameOf(dtype)));
  }
  if (kind_ == RuleKind::kAccumulate && !IsWholeNumber(values_[kScale])) {
    return absl::InvalidArgumentError(
        absl::StrCat(row.name, ": scale must be a whole number for keys of ",
                     NameOf(dtype), ", got ", values_[kScale]));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv
