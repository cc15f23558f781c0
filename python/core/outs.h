// Has the values of a call written to arrays that its caller gives.

#ifndef TENSORKV_PYTHON_CORE_OUTS_H_
#define TENSORKV_PYTHON_CORE_OUTS_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/destination.h"
#include "python/core/python_memory.h"

namespace tensorkv::python {

// The arrays of a call. Values go to the first array of each key, which may be
// none, and from there to its others.
struct Outs {
  std::vector<Destination> first;
  std::vector<std::pair<size_t, Destination>> others;
};
using SharedOuts = std::shared_ptr<const Outs>;

// Throws StatusError (INVALID_ARGUMENT) unless there is one array per key.
void CheckLengths(const std::vector<std::string>& keys,
                  const pybind11::list& arrays);

// Returns the arrays of `outs`, of which each element is an array or a list of
// arrays. Throws StatusError.
SharedOuts GivenOuts(const std::vector<std::string>& keys,
                     const std::optional<pybind11::list>& outs,
                     Exports& exports);

// Copies each key's value to its other arrays, once the first array has it.
// Releases the GIL.
void CopyToOthers(const Outs& outs);

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_OUTS_H_
