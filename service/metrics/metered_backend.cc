#include "service/metrics/metered_backend.h"

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "base/histogram_buckets.h"

namespace tensorkv {
namespace {

using prometheus::Counter;
using prometheus::Histogram;

// Tensors per batch: one launch takes some hundreds.
constexpr std::initializer_list<double> kBatchBounds = {
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

prometheus::Labels DeviceOf(const Backend& backend) {
  return {{"device", std::string(backend.name())}};
}

Histogram& AddHistogram(prometheus::Registry* registry, const Backend& backend,
                        const char* name, const char* help,
                        const Histogram::BucketBoundaries& bounds) {
  return prometheus::BuildHistogram()
      .Name(name)
      .Help(help)
      .Register(*registry)
      .Add(DeviceOf(backend), bounds);
}

Counter& AddCounter(prometheus::Registry* registry, const Backend& backend,
                    const char* name, const char* help) {
  return prometheus::BuildCounter()
      .Name(name)
      .Help(help)
      .Register(*registry)
      .Add(DeviceOf(backend));
}

Counter& AddCopiedBytes(prometheus::Registry* registry, const Backend& backend,
                        const char* direction) {
  prometheus::Labels labels = DeviceOf(backend);
  labels.emplace("direction", direction);
  return prometheus::BuildCounter()
      .Name("tensorkv_copied_bytes_total")
      .Help("Bytes copied between host memory and the device.")
      .Register(*registry)
      .Add(labels);
}

double BytesOf(absl::Span<const MemoryCopy> copies) {
  double bytes = 0;
  for (const MemoryCopy& copy : copies) bytes += copy.size_bytes;
  return bytes;
}

}  // namespace

MeteredBackend::MeteredBackend(std::unique_ptr<Backend> inner,
                               const Alarms* clock,
                               prometheus::Registry* registry)
    : inner_(std::move(inner)),
      clock_(*clock),
      seconds_(AddHistogram(registry, *inner_, "tensorkv_update_seconds",
                            "Time of one batch of updates.",
                            kLatencyBucketsSeconds)),
      batch_tensors_(
          AddHistogram(registry, *inner_, "tensorkv_update_batch_tensors",
                       "Tensors updated by one batch.", kBatchBounds)),
      updated_bytes_(AddCounter(registry, *inner_,
                                "tensorkv_updated_bytes_total",
                                "Bytes of the values written by updates.")),
      failures_(AddCounter(registry, *inner_, "tensorkv_update_failures_total",
                           "Batches of updates that failed.")),
      bytes_to_device_(AddCopiedBytes(registry, *inner_, "to_device")),
      bytes_to_host_(AddCopiedBytes(registry, *inner_, "to_host")) {}

absl::StatusOr<RefPtr<Buffer>> MeteredBackend::Allocate(
    size_t size_bytes, RefPtr<MemoryAccount> account) {
  return inner_->Allocate(size_bytes, std::move(account));
}

absl::Status MeteredBackend::Submit(Plan plan, PlanCallback done) {
  const Measured measured = Begin(plan);
  if (measured.num_updates == 0) {
    return inner_->Submit(std::move(plan), std::move(done));
  }
  return inner_->Submit(
      std::move(plan),
      [this, measured, done = std::move(done)](absl::Status status) mutable {
        End(measured, status);
        std::move(done)(std::move(status));
      });
}

absl::Status MeteredBackend::Run(Plan plan) {
  const Measured measured = Begin(plan);
  absl::Status status = inner_->Run(std::move(plan));
  if (measured.num_updates > 0) End(measured, status);
  return status;
}

MeteredBackend::Measured MeteredBackend::Begin(const Plan& plan) {
  if (!plan.uploads.empty()) bytes_to_device_.Increment(BytesOf(plan.uploads));
  if (!plan.downloads.empty()) {
    bytes_to_host_.Increment(BytesOf(plan.downloads));
  }
  if (plan.updates.empty()) return {};
  Measured measured = {.began_at = clock_.Now(),
                       .num_updates = plan.updates.size()};
  for (const TensorUpdate& update : plan.updates) {
    measured.updated_bytes += update.value.size_bytes();
  }
  return measured;
}

void MeteredBackend::End(const Measured& measured, const absl::Status& status) {
  seconds_.Observe(absl::ToDoubleSeconds(clock_.Now() - measured.began_at));
  batch_tensors_.Observe(measured.num_updates);
  if (status.ok()) {
    updated_bytes_.Increment(measured.updated_bytes);
  } else {
    failures_.Increment();
  }
}

}  // namespace tensorkv
