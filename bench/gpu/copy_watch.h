// When a backend copies to its device.

#ifndef TENSORKV_BENCH_GPU_COPY_WATCH_H_
#define TENSORKV_BENCH_GPU_COPY_WATCH_H_

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "bench/harness/clocks.h"
#include "kernels/backend.h"

namespace tensorkv::bench::gpu {

// A Backend that passes everything on, and remembers when the last upload began
// and ended. What a plan does behind its uploads is a plan of its own, which
// begins when their end has been seen. Thread-safe.
class CopyWatch final : public Backend {
 public:
  // As SteadyTime tells.
  struct Times {
    absl::Duration began_at;
    absl::Duration ended_at;
  };

  // `inner` outlives this object.
  explicit CopyWatch(Backend* inner) : inner_(*inner) {}

  Times last_copy() const {
    MutexLock lock(&mutex_);
    return last_copy_;
  }

  absl::string_view name() const override { return inner_.name(); }
  bool is_host() const override { return inner_.is_host(); }
  DeviceHealth& health() override { return inner_.health(); }
  absl::StatusOr<RefPtr<Buffer>> Allocate(
      size_t size_bytes, RefPtr<MemoryAccount> account) override {
    return inner_.Allocate(size_bytes, std::move(account));
  }
  bool CanRead(const char* data, size_t size_bytes) const override {
    return inner_.CanRead(data, size_bytes);
  }
  absl::Status Submit(tensorkv::Plan plan, PlanCallback done) override {
    if (plan.uploads.empty()) {
      return inner_.Submit(std::move(plan), std::move(done));
    }
    tensorkv::Plan uploads = {.uploads = std::exchange(plan.uploads, {})};
    if (plan.empty()) return Upload(std::move(uploads), std::move(done));
    return Upload(std::move(uploads), [this, plan = std::move(plan),
                                       done = std::move(done)](
                                          absl::Status status) mutable {
      if (!status.ok()) return std::move(done)(std::move(status));
      // The callback is told.
      inner_.Submit(std::move(plan), std::move(done)).IgnoreError();
    });
  }
  absl::StatusOr<RefPtr<Buffer>> AllocateStaging(
      size_t size_bytes, RefPtr<MemoryAccount> account) override {
    return inner_.AllocateStaging(size_bytes, std::move(account));
  }
  void Probe(absl::AnyInvocable<void() &&> done) override {
    inner_.Probe(std::move(done));
  }
  absl::Status ReserveForUpdates(
      absl::Span<const TensorUpdate> batch) override {
    return inner_.ReserveForUpdates(batch);
  }

 private:
  absl::Status Upload(tensorkv::Plan uploads, PlanCallback done) {
    const absl::Duration began_at = SteadyTime();
    return inner_.Submit(
        std::move(uploads),
        [this, began_at, done = std::move(done)](absl::Status status) mutable {
          {
            MutexLock lock(&mutex_);
            last_copy_ = {began_at, SteadyTime()};
          }
          std::move(done)(std::move(status));
        });
  }

  Backend& inner_;
  mutable Mutex mutex_;
  Times last_copy_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_COPY_WATCH_H_
