// Delivers the outcomes of calls that nobody waits for.

#ifndef TENSORKV_PYTHON_CORE_INBOX_H_
#define TENSORKV_PYTHON_CORE_INBOX_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"

namespace tensorkv::python {

// Takes the outcomes of calls on any thread, without Python, and gives them to
// an event loop, which watches a file descriptor. Thread-safe.
class Inbox {
 public:
  // Returns the call's result; throws what the call raises. It runs with the
  // GIL, but may be destroyed without the GIL and without having run.
  using Outcome = absl::AnyInvocable<pybind11::object() &&>;

  // Throws StatusError where the system has no descriptor to give.
  Inbox();

  // Adds the outcome of the call of that number, and makes the descriptor
  // readable. Needs no GIL.
  void Put(uint64_t call, Outcome outcome);

  // Adds the class Inbox. REQUIRES: the GIL.
  static void Register(pybind11::module_& module);

 private:
  // Removes all outcomes, and returns (call, result, exception) of each.
  pybind11::list Take();

  const FileDescriptor event_;
  Mutex mutex_;
  std::vector<std::pair<uint64_t, Outcome>> outcomes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_INBOX_H_
