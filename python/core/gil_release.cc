#include "python/core/gil_release.h"

#include <cxxabi.h>
#include <unistd.h>

namespace tensorkv::python {

GilRelease::~GilRelease() {
  try {
    PyEval_RestoreThread(state_);
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}

}  // namespace tensorkv::python
