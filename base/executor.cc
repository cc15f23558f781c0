#include "base/executor.h"

#include <utility>

namespace tensorkv {

Executor::Executor(TaskRunner* runner) : runner_(runner) {
  if (runner_ == nullptr) thread_ = std::thread([this] { Run(); });
}

Executor::~Executor() {
  if (runner_ != nullptr) return;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.Signal();
  }
  thread_.join();
}

void Executor::Submit(Task task) {
  {
    MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
    changed_.Signal();
    if (runner_ == nullptr || is_running_) return;
    is_running_ = true;
  }
  runner_->Submit("", [this] { RunQueue(); });
}

void Executor::Run() {
  mutex_.lock();
  for (;;) {
    while (tasks_.empty() && !stopping_) changed_.Wait(&mutex_);
    if (tasks_.empty()) break;
    RunFirst();
  }
  mutex_.unlock();
}

void Executor::RunQueue() {
  mutex_.lock();
  while (!tasks_.empty()) RunFirst();
  is_running_ = false;
  mutex_.unlock();
}

void Executor::RunFirst() {
  Task task = std::move(tasks_.front());
  tasks_.pop_front();
  mutex_.unlock();
  std::move(task)();
  task = nullptr;  // what it owns goes without the lock
  mutex_.lock();
}

}  // namespace tensorkv
