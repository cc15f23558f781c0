// Lets other threads of Python run.

#ifndef TENSORKV_PYTHON_CORE_GIL_RELEASE_H_
#define TENSORKV_PYTHON_CORE_GIL_RELEASE_H_

#include <cxxabi.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

namespace tensorkv::python {

// Gives the GIL away for as long as it lives.
//
// Before Python 3.14 a thread that wants it back while the interpreter ends is
// ended by pthread_exit, which unwinds its stack: destructors would then use
// Python without the GIL, and the first that may not throw would abort the
// process. Such a thread stays here instead, until the process has ended.
class GilRelease {
 public:
  // REQUIRES: the GIL.
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() {
    try {
      PyEval_RestoreThread(state_);
    } catch (const abi::__forced_unwind&) {
      for (;;) pause();
    }
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* const state_;
};

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_GIL_RELEASE_H_
