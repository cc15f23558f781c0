// Measures the updates and the copies that a backend makes.

#ifndef TENSORKV_SERVICE_METRICS_METERED_BACKEND_H_
#define TENSORKV_SERVICE_METRICS_METERED_BACKEND_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/alarms.h"
#include "kernels/backend.h"
#include "prometheus/counter.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace tensorkv {

// A Backend that passes everything on and measures plans. Thread-safe.
//
//   tensorkv_update_seconds          time of one batch, with the other steps of
//                                    its plan
//   tensorkv_update_batch_tensors    tensors in one batch
//   tensorkv_updated_bytes_total     bytes of the values written
//   tensorkv_update_failures_total   batches that failed
//   tensorkv_copied_bytes_total      bytes that copies were asked for, by
//                                    direction: to_device, to_host
//
// label: device.
class MeteredBackend final : public Backend {
 public:
  // `clock` and `registry` outlive this object.
  MeteredBackend(std::unique_ptr<Backend> inner, const Alarms* clock,
                 prometheus::Registry* registry);

  absl::string_view name() const override { return inner_->name(); }
  bool is_host() const override { return inner_->is_host(); }
  DeviceHealth& health() override { return inner_->health(); }
  absl::StatusOr<RefPtr<Buffer>> Allocate(
      size_t size_bytes, RefPtr<MemoryAccount> account) override;
  absl::StatusOr<RefPtr<Buffer>> AllocateStaging(
      size_t size_bytes, RefPtr<MemoryAccount> account) override {
    return inner_->AllocateStaging(size_bytes, std::move(account));
  }
  bool CanRead(const char* data, size_t size_bytes) const override {
    return inner_->CanRead(data, size_bytes);
  }
  absl::Status Submit(Plan plan, PlanCallback done) override;
  absl::Status Run(Plan plan) override;
  void Probe(absl::AnyInvocable<void() &&> done) override {
    inner_->Probe(std::move(done));
  }
  absl::Status ReserveForUpdates(
      absl::Span<const TensorUpdate> batch) override {
    return inner_->ReserveForUpdates(batch);
  }

 private:
  // Measured holds when a plan began, and what it updates.
  struct Measured {
    absl::Duration began_at;
    size_t num_updates = 0;
    size_t updated_bytes = 0;
  };

  // Begin counts the bytes of the plan's copies; End observes its updates.
  Measured Begin(const Plan& plan);
  void End(const Measured& measured, const absl::Status& status);

  const std::unique_ptr<Backend> inner_;
  const Alarms& clock_;
  prometheus::Histogram& seconds_;
  prometheus::Histogram& batch_tensors_;
  prometheus::Counter& updated_bytes_;
  prometheus::Counter& failures_;
  prometheus::Counter& bytes_to_device_;
  prometheus::Counter& bytes_to_host_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_METERED_BACKEND_H_
