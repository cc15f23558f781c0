#include "kernels/hyperparameter.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/shown_text.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

absl::Status UnknownName(absl::string_view subject,
                         absl::Span<const HyperparameterTarget> targets,
                         absl::string_view name) {
  if (targets.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        subject, ": expected no hyperparameters, got ", QuotedName(name)));
  }
  const std::string known =
      absl::StrJoin(targets, ", ", [](std::string* out, const auto& target) {
        absl::StrAppend(out, target.hyperparameter->name);
      });
  return absl::InvalidArgumentError(
      absl::StrCat(subject, ": expected hyperparameters out of ", known,
                   ", got ", QuotedName(name)));
}

absl::Status Set(absl::string_view subject,
                 absl::Span<const HyperparameterTarget> targets,
                 absl::string_view name, double value) {
  for (const auto& [hyperparameter, target] : targets) {
    if (hyperparameter->name != name) continue;
    if (!hyperparameter->range.contains(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(subject, ": ", name, " must be ",
                       hyperparameter->range.text, ", got ", value));
    }
    *target = value;
    return absl::OkStatus();
  }
  return UnknownName(subject, targets, name);
}

}  // namespace

absl::Status ReadHyperparameters(absl::string_view subject,
                                 absl::Span<const HyperparameterTarget> targets,
                                 Hyperparameters& given) {
  for (const auto& [hyperparameter, target] : targets) {
    *target = hyperparameter->default_value;
  }
  for (const auto& [name, value] : given) {
    RETURN_IF_ERROR(Set(subject, targets, name, value));
  }
  for (const auto& [hyperparameter, target] : targets) {
    given[std::string(hyperparameter->name)] = *target;
  }
  return absl::OkStatus();
}

std::string QuotedName(absl::string_view name) {
  constexpr size_t kMaxShown = 64;
  return Quoted(name, kMaxShown);
}

}  // namespace tensorkv
