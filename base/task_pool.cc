#include "base/task_pool.h"

#include <algorithm>
#include <utility>

#include "base/cores.h"

namespace tensorkv {

size_t TaskPool::DefaultNumThreads() {
  return std::clamp<size_t>(NumCores(), 4, 16);
}

TaskPool::TaskPool(size_t num_threads)
    : max_running_per_owner_(num_threads - 1) {
  threads_.reserve(num_threads);
  for (size_t i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

void TaskPool::Stop() {
  {
    MutexLock lock(&mutex_);
    is_stopping_ = true;
    changed_.SignalAll();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

bool TaskPool::Submit(absl::string_view name, Task&& task) {
  MutexLock lock(&mutex_);
  if (has_stopped_) return false;
  auto it = owners_.find(name);
  if (it == owners_.end()) {
    it = owners_.try_emplace(std::string(name)).first;
    it->second.name = it->first;
  }
  it->second.tasks.push_back(std::move(task));
  AddIfReady(it->second);
  return true;
}

void TaskPool::AddIfReady(Owner& owner) {
  if (owner.is_ready || owner.tasks.empty() ||
      owner.num_running == max_running_per_owner_) {
    return;
  }
  owner.is_ready = true;
  ready_.push_back(&owner);
  changed_.Signal();
}

void TaskPool::Run() {
  mutex_.lock();
  for (;;) {
    // A task that runs may submit others.
    has_stopped_ = is_stopping_ && owners_.empty();
    if (has_stopped_) break;
    if (ready_.empty()) {
      changed_.Wait(&mutex_);
      continue;
    }
    Owner& owner = *ready_.front();
    ready_.pop_front();
    owner.is_ready = false;
    Task task = std::move(owner.tasks.front());
    owner.tasks.pop_front();
    ++owner.num_running;
    AddIfReady(owner);
    mutex_.unlock();
    std::move(task)();
    task = nullptr;  // what it owns goes without the lock
    mutex_.lock();
    OnTaskReturned(owner);
  }
  changed_.SignalAll();
  mutex_.unlock();
}

void TaskPool::OnTaskReturned(Owner& owner) {
  --owner.num_running;
  AddIfReady(owner);
  if (owner.num_running > 0 || !owner.tasks.empty()) return;
  owners_.erase(owners_.find(owner.name));
}

}  // namespace tensorkv
