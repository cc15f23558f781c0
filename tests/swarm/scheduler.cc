#include "tests/swarm/scheduler.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace tensorkv::swarm {

// One thread, and the baton that lets it run. Whoever posts a baton waits for
// another next, so that all members are passed on with it.
class Scheduler::Thread {
 public:
  Thread() {
    sem_init(&run_, 0, 0);
    sem_init(&stop_, 0, 0);
    thread_ = std::thread([this] { Loop(); });
  }
  ~Thread() {
    is_over_ = true;
    sem_post(&run_);
    thread_.join();
    sem_destroy(&run_);
    sem_destroy(&stop_);
  }

  void Give(Task task) { task_ = std::move(task); }
  bool has_task() const { return task_ != nullptr; }
  Pause why() const { return why_; }

  // Lets the thread run until it pauses or has no task any more.
  void RunUntilItStops() {
    sem_post(&run_);
    AwaitBaton(&stop_);
  }

  static Thread* Current() { return current_; }
  void PauseHere(Pause why) {
    why_ = why;
    current_ = nullptr;
    sem_post(&stop_);
    AwaitBaton(&run_);
    current_ = this;
  }

 private:
  static void AwaitBaton(sem_t* baton) {
    while (sem_wait(baton) != 0 && errno == EINTR) {
    }
  }

  void Loop() {
    for (;;) {
      AwaitBaton(&run_);
      if (is_over_) return;
      current_ = this;
      std::move(task_)();
      task_ = nullptr;
      current_ = nullptr;
      sem_post(&stop_);
    }
  }

  // Null on threads of others, and while a thread does not run.
  static thread_local Thread* current_;

  sem_t run_;
  sem_t stop_;
  Task task_;
  Pause why_ = Pause::kLock;
  bool is_over_ = false;
  std::thread thread_;  // last: starts when everything else is there
};

thread_local Scheduler::Thread* Scheduler::Thread::current_ = nullptr;

Scheduler::Scheduler() = default;
Scheduler::~Scheduler() = default;

bool Scheduler::RunsHere() { return Thread::Current() != nullptr; }

bool Scheduler::PauseHere(Pause why) {
  Thread* const thread = Thread::Current();
  if (thread != nullptr) thread->PauseHere(why);
  return thread != nullptr;
}

void Scheduler::Start(Task task) {
  if (idle_.empty()) {
    threads_.push_back(std::make_unique<Thread>());
    idle_.push_back(threads_.back().get());
  }
  Thread* const thread = idle_.back();
  idle_.pop_back();
  thread->Give(std::move(task));
  Run(thread);
}

void Scheduler::Post(Task task) { tasks_.push_back(std::move(task)); }

void Scheduler::Run(Thread* thread) {
  thread->RunUntilItStops();
  if (thread->has_task()) {
    paused_.push_back(thread);
  } else {
    ++num_ended_;
    idle_.push_back(thread);
  }
}

size_t Scheduler::Count(bool readers) const {
  return std::count_if(paused_.begin(), paused_.end(), [&](const Thread* each) {
    return (each->why() == Pause::kReader) == readers;
  });
}

size_t Scheduler::num_ready() const { return Count(false) + tasks_.size(); }
size_t Scheduler::num_readers() const { return Count(true); }

bool Scheduler::HasPaused(Pause why) const {
  return std::any_of(paused_.begin(), paused_.end(),
                     [&](const Thread* each) { return each->why() == why; });
}

void Scheduler::ResumeThread(size_t n, bool readers) {
  for (auto it = paused_.begin();; ++it) {
    if (((*it)->why() == Pause::kReader) != readers) continue;
    if (n-- > 0) continue;
    Thread* const thread = *it;
    paused_.erase(it);
    return Run(thread);
  }
}

void Scheduler::Resume(size_t n) {
  const size_t num_paused = Count(false);
  if (n < num_paused) return ResumeThread(n, false);
  const auto task = tasks_.begin() + static_cast<ptrdiff_t>(n - num_paused);
  Task taken = std::move(*task);
  tasks_.erase(task);
  Start(std::move(taken));
}

void Scheduler::ResumeReader(size_t n) { ResumeThread(n, true); }

void Scheduler::Settle() {
  // A thread that waits for one thing after another, such as the device for
  // each of its keys, ends nothing meanwhile.
  constexpr int kMostIdleTurns = 40;
  for (int idle_turns = 0; idle_turns < kMostIdleTurns;) {
    const uint64_t ended = num_ended_;
    while (!tasks_.empty()) Resume(Count(false));
    for (size_t left = Count(false); left > 0 && Count(false) > 0; --left) {
      Resume(0);
    }
    if (num_ready() == 0) return;
    idle_turns = num_ended_ == ended ? idle_turns + 1 : 0;
  }
}

}  // namespace tensorkv::swarm

// In place of the C library's for threads of a scheduler. A condition variable
// may wake for no reason, so a wait is a pause with the mutex unlocked. Not
// under ThreadSanitizer, which must see the library's own (and whose macro
// .bazelrc takes away).
#ifndef _GLIBCXX_TSAN

namespace {

using tensorkv::swarm::Pause;
using tensorkv::swarm::Scheduler;

// What the C library has by that name. The version is that of the functions
// for condition variables that have not been replaced since.
template <typename Function>
Function* Next(const char* name, const char* version) {
  void* next = dlvsym(RTLD_NEXT, name, version);
  if (next == nullptr) next = dlsym(RTLD_NEXT, name);
  return reinterpret_cast<Function*>(next);
}

constexpr char kLockVersion[] = "GLIBC_2.2.5";
constexpr char kWaitVersion[] = "GLIBC_2.3.2";

}  // namespace

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static auto* const lock =
      Next<decltype(pthread_mutex_lock)>("pthread_mutex_lock", kLockVersion);
  for (;;) {
    const int error = pthread_mutex_trylock(mutex);
    if (error != EBUSY) return error;
    if (!Scheduler::PauseHere(Pause::kLock)) return lock(mutex);
  }
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  static auto* const wait =
      Next<decltype(pthread_cond_wait)>("pthread_cond_wait", kWaitVersion);
  if (!Scheduler::RunsHere()) return wait(condition, mutex);
  pthread_mutex_unlock(mutex);
  Scheduler::PauseHere(Pause::kLock);
  return pthread_mutex_lock(mutex);
}

int nanosleep(const timespec* time, timespec* left) {
  static auto* const sleep =
      Next<decltype(nanosleep)>("nanosleep", kLockVersion);
  return Scheduler::PauseHere(Pause::kLock) ? 0 : sleep(time, left);
}

}  // extern "C"

#endif
