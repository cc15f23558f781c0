#include "client/prometheus/client_metrics.h"

#include <string>
#include <utility>

#include "base/histogram_buckets.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace tensorkv {
namespace {

prometheus::Labels LabelsOf(Method method) {
  return {{"grpc_type", std::string(NameOf(KindOf(method)))},
          {"grpc_service", std::string(NameOf(ServiceOf(method)))},
          {"grpc_method", std::string(NameOf(method))}};
}

prometheus::Family<prometheus::Counter>& CounterFamily(
    prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

// A code beyond the known ones counts as Unknown.
size_t IndexOf(absl::StatusCode code) {
  const auto index = static_cast<size_t>(code);
  return index < kNumCodes ? index
                           : static_cast<size_t>(absl::StatusCode::kUnknown);
}

}  // namespace

ClientMetrics::ClientMetrics(std::shared_ptr<prometheus::Registry> registry)
    : registry_(std::move(registry)),
      handled_family_(CounterFamily(*registry_, "grpc_client_handled_total",
                                    "Calls ended, by code.")),
      sent_bytes_(CounterFamily(*registry_, "tensorkv_client_sent_bytes_total",
                                "Bytes of the tensors sent.")
                      .Add({})),
      received_bytes_(CounterFamily(*registry_,
                                    "tensorkv_client_received_bytes_total",
                                    "Bytes of the tensors received.")
                          .Add({})),
      input_bytes_(CounterFamily(
          *registry_, "tensorkv_client_compression_input_bytes_total",
          "Bytes of contributions before they were encoded, by encoding.")),
      output_bytes_(CounterFamily(
          *registry_, "tensorkv_client_compression_output_bytes_total",
          "Bytes of encoded contributions, by encoding.")) {
  auto& started =
      CounterFamily(*registry_, "grpc_client_started_total", "Calls begun.");
  auto& handling = prometheus::BuildHistogram()
                       .Name("grpc_client_handling_seconds")
                       .Help("How long calls took.")
                       .Register(*registry_);
  for (const Method method : kUnaryMethods) {
    const prometheus::Labels labels = LabelsOf(method);
    SeriesOf(method).started = &started.Add(labels);
    SeriesOf(method).handling_seconds =
        &handling.Add(labels, kLatencyBucketsSeconds);
  }
}

void ClientMetrics::OnStarted(Method method, int64_t sent_bytes) {
  SeriesOf(method).started->Increment();
  sent_bytes_.Increment(static_cast<double>(sent_bytes));
}

void ClientMetrics::OnEnded(Method method, absl::StatusCode code,
                            absl::Duration taken, int64_t received_bytes) {
  Handled(method, code).Increment();
  SeriesOf(method).handling_seconds->Observe(absl::ToDoubleSeconds(taken));
  received_bytes_.Increment(static_cast<double>(received_bytes));
}

void ClientMetrics::OnEncoded(Compression::Kind kind, int64_t bytes_before,
                              int64_t bytes_after) {
  const prometheus::Labels labels = {{"encoding", std::string(NameOf(kind))}};
  input_bytes_.Add(labels).Increment(static_cast<double>(bytes_before));
  output_bytes_.Add(labels).Increment(static_cast<double>(bytes_after));
}

prometheus::Counter& ClientMetrics::Handled(Method method,
                                            absl::StatusCode code) {
  const size_t index = IndexOf(code);
  auto& cached = SeriesOf(method).handled[index];
  prometheus::Counter* counter = cached.load(std::memory_order_acquire);
  if (counter == nullptr) {
    prometheus::Labels labels = LabelsOf(method);
    labels["grpc_code"] = std::string(kCodeNames[index]);
    // Threads that get here together find the same counter.
    counter = &handled_family_.Add(labels);
    cached.store(counter, std::memory_order_release);
  }
  return *counter;
}

}  // namespace tensorkv
