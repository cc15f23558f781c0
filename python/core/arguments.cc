#include "python/core/arguments.h"

#include <cmath>
#include <type_traits>

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

}  // namespace tensorkv::python
