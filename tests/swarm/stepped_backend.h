// A backend that is as slow, and fails, as a test says.

#ifndef TENSORKV_TESTS_SWARM_STEPPED_BACKEND_H_
#define TENSORKV_TESTS_SWARM_STEPPED_BACKEND_H_

#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/swarm/scheduler.h"

namespace tensorkv::swarm {

// Works like a single-threaded CpuBackend, except as told. Thread-safe.
class SteppedBackend final : public Backend {
 public:
  // From now on, plans that update or copy pause the scheduler's thread that
  // runs them.
  void SetSlow(bool is_slow) { is_slow_ = is_slow; }
  // So many of the next plans with updates fail before they have any effect.
  void FailNext(int num_plans) { num_to_fail_ = num_plans; }

  absl::string_view name() const override { return "stepped"; }
  bool is_host() const override { return true; }
  DeviceHealth& health() override { return health_; }
  absl::StatusOr<RefPtr<Buffer>> Allocate(
      size_t size_bytes, RefPtr<MemoryAccount> account) override {
    return cpu_.Allocate(size_bytes, std::move(account));
  }
  absl::Status Submit(tensorkv::Plan plan, PlanCallback done) override {
    const absl::Status status = Run(std::move(plan));
    std::move(done)(status);
    return status;
  }
  absl::Status ReserveForUpdates(
      absl::Span<const TensorUpdate> batch) override {
    return cpu_.ReserveForUpdates(batch);
  }
  absl::Status Run(tensorkv::Plan plan) override {
    if (is_slow_) Scheduler::PauseHere(Pause::kDevice);
    if (!plan.updates.empty() && num_to_fail_ > 0) {
      --num_to_fail_;
      return absl::ResourceExhaustedError("the device has no memory");
    }
    return cpu_.Run(std::move(plan));
  }

 private:
  CpuBackend cpu_{1};
  DeviceHealth health_{"stepped"};
  std::atomic<bool> is_slow_ = false;
  std::atomic<int> num_to_fail_ = 0;
};

}  // namespace tensorkv::swarm

#endif  // TENSORKV_TESTS_SWARM_STEPPED_BACKEND_H_
