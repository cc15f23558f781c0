// Python's arguments as what the client takes.

#ifndef TENSORKV_PYTHON_CORE_ARGUMENTS_H_
#define TENSORKV_PYTHON_CORE_ARGUMENTS_H_

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "contract/choice_names.h"
#include "contract/requests.h"
#include "python/core/status_error.h"

namespace tensorkv::python {

// Returns the choice that `name`, the argument `what`, stands for.
// Throws StatusError (InvalidArgument).
template <typename Choice>
Choice ByName(const char* what, const std::string& name) {
  if (const auto choice = ChoiceOf<Choice>(name)) return *choice;
  throw StatusError(absl::InvalidArgumentError(absl::StrCat(
      what, ": expected one of ", absl::StrJoin(ChoiceNames<Choice>(), ", "),
      ", got ", name)));
}

// Returns the duration that `seconds`, the argument `what`, stands for.
// Throws StatusError (InvalidArgument) for NaN, which absl::Seconds takes for
// infinity.
absl::Duration SecondsOf(const char* what, double seconds);

// Calls `field(name, member)` for each member of a NamespaceConfig that Python
// gives and gets by name.
template <typename Config, typename Field>
void ForEachField(Config& config, Field field) {
  field("mode", config.mode);
  field("num_workers", config.num_workers);
  field("max_workers", config.max_workers);
  field("staleness", config.staleness);
  field("on_worker_loss", config.on_worker_loss);
  field("rescale_partial_rounds", config.rescale_partial_rounds);
  field("quorum", config.quorum);
  field("quorum_grace", config.quorum_grace);
  field("max_open_rounds", config.max_open_rounds);
  field("aggregation", config.aggregation);
  field("trim_fraction", config.trim_fraction);
  field("sum_order", config.sum_order);
  field("mirrored", config.mirrored);
  field("on_non_finite", config.gradient_guard.on_non_finite);
  field("max_norm", config.gradient_guard.max_norm);
  field("max_call_norm", config.gradient_guard.max_call_norm);
  field("on_large_norm", config.gradient_guard.on_large_norm);
  field("budget_bytes", config.budget_bytes);
  field("max_retained_bytes", config.max_retained_bytes);
  field("round_timeout", config.round_timeout);
  field("late", config.late);
  field("staleness_decay", config.staleness_decay);
}

// Returns the configuration of these fields; those that `given` lacks have
// their defaults.
// REQUIRES: the GIL. Throws StatusError (InvalidArgument), and TypeError for a
// value that its field cannot hold.
NamespaceConfig NamespaceConfigOf(const pybind11::dict& given);

// The fields that `given` has, as an update_mask names them. REQUIRES: the GIL.
std::vector<std::string> UpdateMaskOf(const pybind11::dict& given);

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_ARGUMENTS_H_
