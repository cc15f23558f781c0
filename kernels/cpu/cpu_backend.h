// The backend that keeps tensors in host memory.

#ifndef TENSORKV_KERNELS_CPU_CPU_BACKEND_H_
#define TENSORKV_KERNELS_CPU_CPU_BACKEND_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/thread_pool.h"

namespace tensorkv {

// Updates tensors with the CPU's widest vectors, in parallel over the keys of
// a batch and inside large tensors. Takes every dtype. Host and device are the
// same memory.
//
// Thread-safe: calls run side by side and share the threads. Submit runs the
// whole plan and its callback before it returns. A batch of little work runs on
// the caller's thread alone.
class CpuBackend final : public Backend {
 public:
  // Updates use up to `num_threads` threads per call, the caller's included;
  // 1 or less is the caller's alone.
  explicit CpuBackend(int num_threads);
  // Uses the loops of `kernels`, which must be of an instruction set that the
  // CPU has (SupportedKernels) and outlive the backend, in place of the CPU's
  // best.
  CpuBackend(int num_threads, const KernelTable& kernels);

  absl::string_view name() const override { return "cpu"; }
  bool is_host() const override { return true; }
  DeviceHealth& health() override { return health_; }
  absl::StatusOr<RefPtr<Buffer>> Allocate(
      size_t size_bytes, RefPtr<MemoryAccount> account) override;
  absl::Status Submit(Plan plan, PlanCallback done) override;
  absl::Status Run(Plan plan) override;
  absl::Status ReserveForUpdates(
      absl::Span<const TensorUpdate> /*batch*/) override {
    return absl::OkStatus();
  }

 private:
  // REQUIRES: the batch has been checked (update_check.h).
  void Update(absl::Span<const TensorUpdate> batch);

  DeviceHealth health_{"cpu"};  // never fails
  const KernelTable& kernels_;
  ThreadPool threads_;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CPU_CPU_BACKEND_H_
