#include "base/executor.h"

#include <utility>

namespace tensorkv {

Executor::Executor() : thread_([this] { Run(); }) {}

Executor::~Executor() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.Signal();
  }
  thread_.join();
}

void Executor::Submit(Task task) {
  MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
  changed_.Signal();
}

void Executor::Run() {
  mutex_.lock();
  for (;;) {
    while (tasks_.empty() && !stopping_) changed_.Wait(&mutex_);
    if (tasks_.empty()) break;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    mutex_.unlock();
    std::move(task)();
    task = nullptr;  // what it owns goes without the lock
    mutex_.lock();
  }
  mutex_.unlock();
}

}  // namespace tensorkv
