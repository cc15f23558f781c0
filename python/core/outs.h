// Where the values of a call go that has arrays for them.

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

// Values go to the first array of each key, which may be none, and from there
// to its others.
struct Outs {
  std::vector<Destination> first;
  std::vector<std::pair<size_t, Destination>> others;
};
using SharedOuts = std::shared_ptr<const Outs>;

// Throws StatusError (INVALID_ARGUMENT) unless there is one array per key.
void CheckLengths(const std::vector<std::string>& keys,
                  const pybind11::list& arrays);

// An element of `outs` is an array or a list of arrays. Throws StatusError.
SharedOuts GivenOuts(const std::vector<std::string>& keys,
                     const std::optional<pybind11::list>& outs,
                     Exports& exports);

// Once the first array of each key has its value. Releases the GIL.
void CopyToOthers(const Outs& outs);

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_OUTS_H_
