#include "python/core/arguments.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>

#include "absl/strings/string_view.h"

namespace tensorkv::python {

namespace py = pybind11;

absl::Duration SecondsOf(const char* what, double seconds) {
  if (!std::isnan(seconds)) return absl::Seconds(seconds);
  throw StatusError(absl::InvalidArgumentError(
      absl::StrCat(what, ": expected a number of seconds, got nan")));
}

NamespaceConfig NamespaceConfigOf(const py::dict& given) {
  NamespaceConfig config;
  ForEachField(config, [&]<typename Field>(const char* name, Field& field) {
    if (!given.contains(name)) return;
    const py::object value = given[name];
    try {
      if constexpr (std::is_enum_v<Field>) {
        field = ByName<Field>(name, value.cast<std::string>());
      } else if constexpr (std::is_same_v<Field, absl::Duration>) {
        field = SecondsOf(name, value.cast<double>());
      } else {
        field = value.cast<Field>();
      }
    } catch (const py::cast_error&) {
      throw py::type_error(
          absl::StrCat(name, ": expected another type or range, got ",
                       std::string(py::repr(value))));
    }
  });
  return config;
}

std::vector<std::string> UpdateMaskOf(const py::dict& given) {
  constexpr absl::string_view kOfGuard[] = {"on_non_finite", "max_norm",
                                            "max_call_norm", "on_large_norm"};
  std::vector<std::string> paths;
  for (const auto& [name, value] : given) {
    const auto path = name.cast<std::string>();
    const bool is_of_guard = std::find(std::begin(kOfGuard), std::end(kOfGuard),
                                       path) != std::end(kOfGuard);
    paths.push_back(absl::StrCat(is_of_guard ? "gradient_guard." : "", path));
  }
  return paths;
}

}  // namespace tensorkv::python
