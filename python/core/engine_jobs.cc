#include "python/core/engine_jobs.h"

#include <pybind11/stl.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"

namespace tensorkv::python {
namespace {

namespace py = pybind11;

template <typename Function>
uintptr_t AddressOf(Function* function) {
  return reinterpret_cast<uintptr_t>(function);
}

}  // namespace

struct EngineJobs::State {
  Mutex mutex;
  CondVar changed;
  std::vector<Number> ready ABSL_GUARDED_BY(mutex);
  // Those that have ended and are still waited for.
  absl::flat_hash_set<Number> ended ABSL_GUARDED_BY(mutex);
  // Calls of Take that wait, but for those that are last.
  int num_takers ABSL_GUARDED_BY(mutex) = 0;
  bool is_closed ABSL_GUARDED_BY(mutex) = false;
};

struct EngineJobs::Operation {
  std::shared_ptr<State> state;
  Number job = 0;
};

EngineJobs::EngineJobs() : state_(std::make_shared<State>()) {}

void EngineJobs::SayReady(void*, void* operation) {
  const auto& [state, job] = *static_cast<const Operation*>(operation);
  MutexLock lock(&state->mutex);
  state->ready.push_back(job);
  state->changed.SignalAll();
}

void EngineJobs::AwaitEnd(void*, void* operation) {
  const auto& [state, job] = *static_cast<const Operation*>(operation);
  MutexLock lock(&state->mutex);
  while (state->ended.erase(job) == 0) state->changed.Wait(&state->mutex);
}

void EngineJobs::Delete(void* operation) {
  delete static_cast<Operation*>(operation);
}

uintptr_t EngineJobs::NewOperation(Number job) const {
  return reinterpret_cast<uintptr_t>(new Operation{state_, job});
}

std::vector<EngineJobs::Number> EngineJobs::Take(bool is_last) {
  const py::gil_scoped_release release;
  MutexLock lock(&state_->mutex);
  if (!is_last) ++state_->num_takers;
  while (!state_->is_closed &&
         (state_->ready.empty() || (is_last && state_->num_takers > 0))) {
    state_->changed.Wait(&state_->mutex);
  }
  if (!is_last) --state_->num_takers;
  return std::exchange(state_->ready, {});
}

void EngineJobs::End(const std::vector<Number>& jobs) {
  MutexLock lock(&state_->mutex);
  state_->ended.insert(jobs.begin(), jobs.end());
  state_->changed.SignalAll();
}

void EngineJobs::Close() {
  MutexLock lock(&state_->mutex);
  state_->is_closed = true;
  state_->changed.SignalAll();
}

void EngineJobs::Register(py::module_& module) {
  using namespace py::literals;
  py::class_<EngineJobs> jobs(module, "EngineJobs");
  jobs.def(py::init<>())
      .def("new_operation", &EngineJobs::NewOperation, "job"_a)
      .def("take", &EngineJobs::Take, "is_last"_a)
      .def("end", &EngineJobs::End, "jobs"_a)
      .def("close", &EngineJobs::Close);
  jobs.attr("say_ready") = AddressOf(&EngineJobs::SayReady);
  jobs.attr("await_end") = AddressOf(&EngineJobs::AwaitEnd);
  jobs.attr("delete") = AddressOf(&EngineJobs::Delete);
}

}  // namespace tensorkv::python
