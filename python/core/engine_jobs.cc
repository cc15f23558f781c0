#include "python/core/engine_jobs.h"

#include <pybind11/stl.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "client/internal/steady_now.h"
#include "python/core/gil_release.h"
#include "python/core/seconds_of.h"

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
  struct Begun {
    OnComplete on_complete;
    Key key;
  };
  // The engine's operations of a key: those that it has not begun, and those
  // that have not ended since.
  struct Operations {
    int num_to_begin = 0;
    int num_begun = 0;

    // A next one begins once the one before has ended.
    bool are_awaited() const { return num_to_begin > 0 && num_begun == 0; }
  };
  // Keys that were taken together the last time.
  struct Group {
    size_t num_keys = 0;
    size_t num_ready = 0;
  };

  explicit State(absl::Duration wait) : longest_wait(wait) {}

  // Whether jobs are to be taken, or nothing will be any more.
  bool IsEnough() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (is_closed) return true;
    if (ready.empty()) return false;
    return (num_awaited == 0 && num_missing == 0) ||
           ready_bytes >= kManyBytes ||
           SteadyNow() >= ready_since + longest_wait;
  }
  void AddReady(Number job, Key key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (ready.empty()) ready_since = SteadyNow();
    ready.push_back(job);
    const auto found = groups.find(key);
    if (found == groups.end()) return;
    Group& group = *found->second;
    if (group.num_ready++ == 0) num_missing += group.num_keys;
    --num_missing;
  }
  // Those that are ready, whose keys are a group from now on.
  std::vector<Number> TakeReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const auto group = std::make_shared<Group>();
    group->num_keys = ready.size();
    for (const Number job : ready) {
      std::shared_ptr<Group>& of_key = groups[begun.at(job).key];
      if (of_key != nullptr) {
        --of_key->num_keys;
        of_key->num_ready = 0;
      }
      of_key = group;
    }
    num_missing = 0;
    ready_bytes = 0;
    return std::exchange(ready, {});
  }
  void Count(Key key, int to_begin, int begun)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    Operations& counted = operations[key];
    if (counted.are_awaited()) --num_awaited;
    counted.num_to_begin += to_begin;
    counted.num_begun += begun;
    if (counted.are_awaited()) ++num_awaited;
    if (counted.num_to_begin == 0 && counted.num_begun == 0) {
      operations.erase(key);
    }
  }
  // Until something has changed, or what is ready has waited for long enough.
  void Wait() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (ready.empty()) {
      changed.Wait(&mutex);
    } else {
      changed.WaitWithTimeout(&mutex, ready_since + longest_wait - SteadyNow());
    }
  }

  const absl::Duration longest_wait;
  Mutex mutex;
  // This is told to calls of Take.
  CondVar changed;
  std::vector<Number> ready ABSL_GUARDED_BY(mutex);
  // These are the bytes of all that is ready, and when the first of it was.
  uint64_t ready_bytes ABSL_GUARDED_BY(mutex) = 0;
  absl::Duration ready_since ABSL_GUARDED_BY(mutex);
  absl::flat_hash_map<Key, Operations> operations ABSL_GUARDED_BY(mutex);
  // The keys whose operations are awaited.
  int num_awaited ABSL_GUARDED_BY(mutex) = 0;
  absl::flat_hash_map<Key, std::shared_ptr<Group>> groups
      ABSL_GUARDED_BY(mutex);
  // The keys that are not ready, of groups that have ready ones.
  size_t num_missing ABSL_GUARDED_BY(mutex) = 0;
  // Jobs that have begun and not ended.
  absl::flat_hash_map<Number, Begun> begun ABSL_GUARDED_BY(mutex);
  bool is_closed ABSL_GUARDED_BY(mutex) = false;
};

struct EngineJobs::Operation {
  const std::shared_ptr<State> state;
  const Number job;
  const Key key;
  const uint64_t bytes;
  bool has_begun = false;
};

EngineJobs::EngineJobs(absl::Duration longest_wait)
    : state_(std::make_shared<State>(longest_wait)) {}

void EngineJobs::Begin(void*, void* on_complete, void* operation) {
  auto& [shared, job, key, bytes, has_begun] =
      *static_cast<Operation*>(operation);
  State& state = *shared;
  MutexLock lock(&state.mutex);
  has_begun = true;
  state.Count(key, /*to_begin=*/-1, /*begun=*/1);
  state.begun.emplace(
      job, State::Begun{*static_cast<const OnComplete*>(on_complete), key});
  state.AddReady(job, key);
  state.ready_bytes += bytes;
  // The first is told, since it is to look at the time.
  if (state.ready.size() == 1 || state.IsEnough()) state.changed.Signal();
}

void EngineJobs::Delete(void* operation) {
  const std::unique_ptr<Operation> ended(static_cast<Operation*>(operation));
  if (ended->has_begun) return;
  // The engine does not run what reads the results of something that failed.
  State& state = *ended->state;
  MutexLock lock(&state.mutex);
  state.Count(ended->key, /*to_begin=*/-1, /*begun=*/0);
  if (state.IsEnough()) state.changed.Signal();
}

uintptr_t EngineJobs::NewOperation(Number job, Key key, uint64_t bytes) const {
  MutexLock lock(&state_->mutex);
  state_->Count(key, /*to_begin=*/1, /*begun=*/0);
  return reinterpret_cast<uintptr_t>(new Operation{state_, job, key, bytes});
}

std::vector<EngineJobs::Number> EngineJobs::Take() {
  const GilRelease release;
  State& state = *state_;
  MutexLock lock(&state.mutex);
  while (!state.IsEnough()) state.Wait();
  return state.TakeReady();
}

void EngineJobs::End(const std::vector<Number>& jobs) {
  const GilRelease release;
  std::vector<OnComplete> ended;
  ended.reserve(jobs.size());
  {
    MutexLock lock(&state_->mutex);
    for (const Number job : jobs) {
      if (auto found = state_->begun.extract(job)) {
        ended.push_back(found.mapped().on_complete);
        state_->Count(found.mapped().key, /*to_begin=*/0, /*begun=*/-1);
      }
    }
  }
  for (const OnComplete& on_complete : ended) on_complete();
}

void EngineJobs::Close() {
  MutexLock lock(&state_->mutex);
  state_->is_closed = true;
  state_->changed.SignalAll();
}

void EngineJobs::Register(py::module_& module) {
  using namespace py::literals;
  py::class_<EngineJobs> jobs(module, "EngineJobs");
  jobs.def(py::init([](double longest_wait) {
             return std::make_unique<EngineJobs>(
                 SecondsOf("longest_wait", longest_wait));
           }),
           "longest_wait"_a = absl::ToDoubleSeconds(kLongestWait))
      .def("new_operation", &EngineJobs::NewOperation, "job"_a, "key"_a,
           "bytes"_a)
      .def("take", &EngineJobs::Take)
      .def("end", &EngineJobs::End, "jobs"_a)
      .def("close", &EngineJobs::Close);
  jobs.attr("begin") = AddressOf(&EngineJobs::Begin);
  jobs.attr("delete") = AddressOf(&EngineJobs::Delete);
}

}  // namespace tensorkv::python
