#include "python/core/outs.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "python/core/gil_release.h"
#include "python/core/status_error.h"

namespace tensorkv::python {
namespace {

namespace py = pybind11;

void Add(const Destination& out, size_t index, absl::string_view key,
         Outs& outs) {
  Destination& first = outs.first[index];
  if (first.memory.data() == nullptr) {
    first = out;
    return;
  }
  if (first.dtype != out.dtype || first.shape != out.shape) {
    throw StatusError(absl::InvalidArgumentError(absl::StrCat(
        "out of key \"", key, "\": expected ",
        Description(first.dtype, first.shape), " as its first, got ",
        Description(out.dtype, out.shape))));
  }
  outs.others.emplace_back(index, out);
}

Outs OutsOf(const std::vector<std::string>& keys, const py::list& arrays,
            Exports& exports) {
  Outs outs = {.first = std::vector<Destination>(keys.size())};
  for (size_t i = 0; i < keys.size(); ++i) {
    const py::object out = arrays[i];
    if (!PyList_CheckExact(out.ptr())) {
      Add(DestinationOf(out, keys[i], exports), i, keys[i], outs);
      continue;
    }
    for (const py::handle each : out) {
      Add(DestinationOf(each, keys[i], exports), i, keys[i], outs);
    }
  }
  return outs;
}

}  // namespace

void CheckLengths(const std::vector<std::string>& keys,
                  const py::list& arrays) {
  if (keys.size() == arrays.size()) return;
  throw StatusError(absl::InvalidArgumentError(absl::StrCat(
      "expected ", keys.size(), " arrays, one per key, got ", arrays.size())));
}

SharedOuts GivenOuts(const std::vector<std::string>& keys,
                     const std::optional<py::list>& outs, Exports& exports) {
  if (!outs) return std::make_shared<const Outs>();
  CheckLengths(keys, *outs);
  return std::make_shared<const Outs>(OutsOf(keys, *outs, exports));
}

void CopyToOthers(const Outs& outs) {
  const GilRelease release;
  for (const auto& [index, other] : outs.others) {
    const absl::Span<const char> first = outs.first[index].memory;
    std::memcpy(other.memory.data(), first.data(), first.size());
  }
}

}  // namespace tensorkv::python
