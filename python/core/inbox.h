// What has become of calls that nobody waits for.

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
  // Makes the call's result, with the GIL; throws what the call raises. It may
  // be destroyed without the GIL and without having run.
  using Outcome = absl::AnyInvocable<pybind11::object() &&>;

  // Throws StatusError where the system has no descriptor to give.
  Inbox();

  void Put(uint64_t call, Outcome outcome);

  static void Register(pybind11::module_& module);

 private:
  // (call, result, exception) of each call since the last time.
  pybind11::list Take();

  const FileDescriptor event_;
  Mutex mutex_;
  std::vector<std::pair<uint64_t, Outcome>> outcomes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_INBOX_H_
