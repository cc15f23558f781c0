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

// The arrays of a call. A value is received into the first array of its key, if
// there is one, and copied from there to the other arrays of the key.
struct Outs {
  // By key; a key without an array has a destination without memory.
  std::vector<Destination> first;
  // Each with the index of its key.
  std::vector<std::pair<size_t, Destination>> others;
};
using SharedOuts = std::shared_ptr<const Outs>;

// Throws StatusError (INVALID_ARGUMENT) unless there is one array per key.
void CheckLengths(const std::vector<std::string>& keys,
                  const pybind11::list& arrays);

// Returns the arrays of `outs`, which has an array or a list of arrays for each
// key; none without `outs`. `exports` keeps their memory. Throws StatusError.
SharedOuts GivenOuts(const std::vector<std::string>& keys,
                     const std::optional<pybind11::list>& outs,
                     Exports& exports);

// Copies each key's value from its first array to its other arrays. REQUIRES:
// the GIL, which it releases meanwhile.
void CopyToOthers(const Outs& outs);

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_OUTS_H_
