// Makes configurations of namespaces of Python's keyword arguments.

#ifndef TENSORKV_PYTHON_CORE_NAMESPACE_CONFIG_H_
#define TENSORKV_PYTHON_CORE_NAMESPACE_CONFIG_H_

#include <pybind11/pybind11.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "contract/choice_names.h"
#include "python/core/status_error.h"

namespace tensorkv::python {

// Returns the choice that `name`, the argument `what`, stands for. Throws
// StatusError (InvalidArgument).
template <typename Choice>
Choice ByName(const char* what, const std::string& name) {
  if (const auto choice = ChoiceOf<Choice>(name)) return *choice;
  throw StatusError(absl::InvalidArgumentError(absl::StrCat(
      what, ": expected one of ", absl::StrJoin(ChoiceNames<Choice>(), ", "),
      ", got ", name)));
}

// Adds the class NamespaceConfig. REQUIRES: the GIL.
void RegisterNamespaceConfig(pybind11::module_& module);

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_NAMESPACE_CONFIG_H_
