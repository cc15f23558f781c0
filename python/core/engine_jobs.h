// Jobs of an engine of operations that calls functions of C: that of MXNet 1.

#ifndef TENSORKV_PYTHON_CORE_ENGINE_JOBS_H_
#define TENSORKV_PYTHON_CORE_ENGINE_JOBS_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"

namespace tensorkv::python {

// Numbers of jobs that are ready, for threads of Python that do them. A job is
// an asynchronous operation of the engine: it begins when what it reads is
// there, on a thread of the engine's, which goes on at once, and ends when the
// engine is told so. Neither is Python, nor waits for the GIL, which others
// hold for milliseconds. Thread-safe.
//
// Jobs of a key begin one after the other. Small ones go together: the ones
// that are ready wait for those of other keys that are yet to begin, and for
// those of keys that they were taken with the last time, until they have
// kManyBytes, but no longer than kLongestWait, since those others may need what
// comes of these, or may not come.
class EngineJobs {
 public:
  using Number = uint64_t;
  using Key = uint64_t;

  static constexpr uint64_t kManyBytes = 4 << 20;
  static constexpr absl::Duration kLongestWait = absl::Milliseconds(1);

  // Ready jobs wait no longer than that for others; kLongestWait but in tests.
  explicit EngineJobs(absl::Duration longest_wait);

  static void Register(pybind11::module_& module);

 private:
  struct State;
  struct Operation;

  // What the engine runs when an operation begins, and how it lets go of it,
  // which may be one that has not begun.
  static void Begin(void* context, void* on_complete, void* operation);
  static void Delete(void* operation);

  // The argument of one such run, for a job of so many bytes with the key.
  uintptr_t NewOperation(Number job, Key key, uint64_t bytes) const;

  // Waits for jobs that are ready, as above; none once this is closed.
  std::vector<Number> Take();
  // Tells the engine that jobs which were taken have ended.
  void End(const std::vector<Number>& jobs);
  void Close();

  // Shared with the operations, which may outlive this object.
  const std::shared_ptr<State> state_;
};

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_ENGINE_JOBS_H_
