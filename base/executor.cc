#include "base/executor.h"

#include <utility>

namespace tensorkv {

Executor::Executor(int num_threads) {
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

Executor::~Executor() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
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
