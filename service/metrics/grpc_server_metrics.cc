#include "service/metrics/grpc_server_metrics.h"

#include <string>

#include "absl/time/time.h"
#include "base/histogram_buckets.h"
#include "contract/code_names.h"

namespace tensorkv {
namespace {

prometheus::Labels LabelsOf(Method method) {
  return {{"grpc_type", std::string(NameOf(KindOf(method)))},
          {"grpc_service", std::string(NameOf(ServiceOf(method)))},
          {"grpc_method", std::string(NameOf(method))}};
}

prometheus::Family<prometheus::Histogram>& AddHistograms(
    prometheus::Registry* registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(*registry);
}

}  // namespace

GrpcServerMetrics::GrpcServerMetrics(prometheus::Registry* registry)
    : handled_(prometheus::BuildCounter()
                   .Name("grpc_server_handled_total")
                   .Help("Calls ended, by status code.")
                   .Register(*registry)),
      handling_seconds_(
          AddHistograms(registry, "grpc_server_handling_seconds",
                        "Time from a request's arrival to its reply.")),
      received_bytes_(AddHistograms(registry, "grpc_server_received_bytes",
                                    "Size of request messages.")),
      sent_bytes_(AddHistograms(registry, "grpc_server_sent_bytes",
                                "Size of reply messages.")) {
  auto& started = prometheus::BuildCounter()
                      .Name("grpc_server_started_total")
                      .Help("Calls begun.")
                      .Register(*registry);
  for (const Method method : kAllMethods) {
    of(method).started = &started.Add(LabelsOf(method));
  }
}

void GrpcServerMetrics::AddSeries(Method method) {
  MethodMetrics& metrics = of(method);
  prometheus::Labels labels = LabelsOf(method);
  metrics.handling_seconds =
      &handling_seconds_.Add(labels, kLatencyBucketsSeconds);
  metrics.received_bytes = &received_bytes_.Add(labels, kSizeBucketsBytes);
  metrics.sent_bytes = &sent_bytes_.Add(labels, kSizeBucketsBytes);
  for (size_t code = 0; code < kNumCodes; ++code) {
    labels["grpc_code"] = kCodeNames[code];
    metrics.handled[code] = &handled_.Add(labels);
  }
}

void GrpcServerMetrics::Started(Method method) {
  std::call_once(of(method).once, [this, method] { AddSeries(method); });
  of(method).started->Increment();
}

void GrpcServerMetrics::Handled(Method method, const CallOutcome& outcome) {
  MethodMetrics& metrics = of(method);
  metrics.handled[static_cast<size_t>(outcome.code)]->Increment();
  metrics.handling_seconds->Observe(absl::ToDoubleSeconds(outcome.duration));
  metrics.received_bytes->Observe(outcome.request_bytes);
  metrics.sent_bytes->Observe(outcome.reply_bytes);
}

}  // namespace tensorkv
