#include "python/core/engine_jobs.h"

#include <pybind11/stl.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"

namespace tensorkv::python {
namespace {

namespace py = pybind11;

template <typename Function>
uintptr_t AddressOf(Function* function) {
  return reinterpret_cast<uintptr_t>(function);
}

// How the engine is told of an end. MXNet's header include/mxnet/engine.h has
// it as engine::CallbackOnComplete, a class of these members alone.
struct OnComplete {
  void operator()() const { callback(engine, parameter, /*error=*/nullptr); }

  void (*callback)(void* engine, void* parameter, const void* error);
  void* engine;
  void* parameter;
};

}  // namespace

struct EngineJobs::State {
  Mutex mutex;
  // For calls of Take that wait, and for those of them that are last.
  CondVar changed;
  CondVar changed_for_last;
  std::vector<Number> ready ABSL_GUARDED_BY(mutex);
  // Jobs that have begun and not ended.
  absl::flat_hash_map<Number, OnComplete> begun ABSL_GUARDED_BY(mutex);
  // Calls of Take that wait, but for those that are last.
  int num_takers ABSL_GUARDED_BY(mutex) = 0;
  bool is_closed ABSL_GUARDED_BY(mutex) = false;
};

struct EngineJobs::Operation {
  std::shared_ptr<State> state;
  Number job = 0;
};

EngineJobs::EngineJobs() : state_(std::make_shared<State>()) {}

void EngineJobs::Begin(void*, void* on_complete, void* operation) {
  const auto& [state, job] = *static_cast<const Operation*>(operation);
  MutexLock lock(&state->mutex);
  state->begun.emplace(job, *static_cast<const OnComplete*>(on_complete));
  state->ready.push_back(job);
  (state->num_takers > 0 ? state->changed : state->changed_for_last).Signal();
}

void EngineJobs::Delete(void* operation) {
  delete static_cast<Operation*>(operation);
}

uintptr_t EngineJobs::NewOperation(Number job) const {
  return reinterpret_cast<uintptr_t>(new Operation{state_, job});
}

std::vector<EngineJobs::Number> EngineJobs::Take(bool is_last) {
  const py::gil_scoped_release release;
  State& state = *state_;
  MutexLock lock(&state.mutex);
  if (is_last) {
    while (!state.is_closed && (state.ready.empty() || state.num_takers > 0)) {
      state.changed_for_last.Wait(&state.mutex);
    }
  } else {
    ++state.num_takers;
    while (!state.is_closed && state.ready.empty()) {
      state.changed.Wait(&state.mutex);
    }
    --state.num_takers;
  }
  return std::exchange(state.ready, {});
}

void EngineJobs::End(const std::vector<Number>& jobs) {
  const py::gil_scoped_release release;
  std::vector<OnComplete> ended;
  ended.reserve(jobs.size());
  {
    MutexLock lock(&state_->mutex);
    for (const Number job : jobs) {
      if (auto found = state_->begun.extract(job)) {
        ended.push_back(found.mapped());
      }
    }
  }
  for (const OnComplete& on_complete : ended) on_complete();
}

void EngineJobs::Close() {
  MutexLock lock(&state_->mutex);
  state_->is_closed = true;
  state_->changed.SignalAll();
  state_->changed_for_last.SignalAll();
}

void EngineJobs::Register(py::module_& module) {
  using namespace py::literals;
  py::class_<EngineJobs> jobs(module, "EngineJobs");
  jobs.def(py::init<>())
      .def("new_operation", &EngineJobs::NewOperation, "job"_a)
      .def("take", &EngineJobs::Take, "is_last"_a)
      .def("end", &EngineJobs::End, "jobs"_a)
      .def("close", &EngineJobs::Close);
  jobs.attr("begin") = AddressOf(&EngineJobs::Begin);
  jobs.attr("delete") = AddressOf(&EngineJobs::Delete);
}

}  // namespace tensorkv::python
