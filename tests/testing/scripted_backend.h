// A backend that tests can hold still and make fail.

#ifndef TENSORKV_TESTS_TESTING_SCRIPTED_BACKEND_H_
#define TENSORKV_TESTS_TESTING_SCRIPTED_BACKEND_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"

namespace tensorkv::testing {

// Works like a single-threaded CpuBackend, except as told; Apply is any plan
// that has updates. Thread-safe.
class ScriptedBackend final : public Backend {
 public:
  // From now on, Apply waits at its start until Release.
  void Hold() {
    MutexLock lock(&mutex_);
    is_holding_ = true;
  }
  void Release() {
    MutexLock lock(&mutex_);
    is_holding_ = false;
    changed_.SignalAll();
  }
  // Returns when a call of Apply waits.
  void WaitUntilHeld() {
    MutexLock lock(&mutex_);
    while (num_held_ == 0) changed_.Wait(&mutex_);
  }

  // From now on, Apply returns this; OK makes it work again.
  void FailApply(absl::Status status) {
    MutexLock lock(&mutex_);
    apply_status_ = std::move(status);
  }
  // How often it has been called.
  int64_t num_applied() {
    MutexLock lock(&mutex_);
    return num_applied_;
  }
  // The next Allocate calls `hook` first.
  void WhenAllocating(std::function<void()> hook) {
    MutexLock lock(&mutex_);
    allocate_hook_ = std::move(hook);
  }
  // The next copies to the device call `hook` first.
  void WhenUploading(std::function<void()> hook) {
    MutexLock lock(&mutex_);
    upload_hook_ = std::move(hook);
  }
  // As FailApply, for Allocate.
  void FailAllocate(absl::Status status) {
    MutexLock lock(&mutex_);
    allocate_status_ = std::move(status);
  }

  absl::string_view name() const override { return "scripted"; }
  bool is_host() const override { return true; }
  // Tests may fail it; the backend goes on working.
  DeviceHealth& health() override { return health_; }
  absl::StatusOr<RefPtr<Buffer>> Allocate(
      size_t size_bytes, RefPtr<MemoryAccount> account) override {
    std::function<void()> hook;
    {
      MutexLock lock(&mutex_);
      if (!allocate_status_.ok()) return allocate_status_;
      hook = std::exchange(allocate_hook_, nullptr);
    }
    if (hook) hook();
    return cpu_.Allocate(size_bytes, std::move(account));
  }
  absl::Status Submit(Plan plan, PlanCallback done) override {
    const absl::Status status = Run(std::move(plan));
    std::move(done)(status);
    return status;
  }
  absl::Status ReserveForUpdates(
      absl::Span<const TensorUpdate> batch) override {
    return cpu_.ReserveForUpdates(batch);
  }
  absl::Status Run(Plan plan) override {
    std::function<void()> hook;
    if (!plan.uploads.empty()) {
      MutexLock lock(&mutex_);
      hook = std::exchange(upload_hook_, nullptr);
    }
    if (hook) hook();
    if (!plan.updates.empty()) {
      MutexLock lock(&mutex_);
      ++num_applied_;
      ++num_held_;
      changed_.SignalAll();
      while (is_holding_) changed_.Wait(&mutex_);
      --num_held_;
      if (!apply_status_.ok()) return apply_status_;
    }
    return cpu_.Run(std::move(plan));
  }

 private:
  CpuBackend cpu_{1};
  DeviceHealth health_{"scripted"};
  Mutex mutex_;
  CondVar changed_;
  bool is_holding_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t num_applied_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_held_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status apply_status_ ABSL_GUARDED_BY(mutex_);
  absl::Status allocate_status_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> allocate_hook_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> upload_hook_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_SCRIPTED_BACKEND_H_
