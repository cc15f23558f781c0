#include "service/metrics/grpc_server_metrics.h"

#include <string>

#include "absl/time/time.h"
#include "service/metrics/histogram_bounds.h"

namespace tensorkv {
namespace {

// As the label is spelled by convention, by number.
constexpr const char* kCodeNames[] = {"OK",
                                      "Canceled",
                                      "Unknown",
                                      "InvalidArgument",
                                      "DeadlineExceeded",
                                      "NotFound",
                                      "AlreadyExists",
                                      "PermissionDenied",
                                      "ResourceExhausted",
                                      "FailedPrecondition",
                                      "Aborted",
                                      "OutOfRange",
                                      "Unimplemented",
                                      "Internal",
                                      "Unavailable",
                                      "DataLoss",
                                      "Unauthenticated"};

prometheus::Labels LabelsOf(Method method) {
  return {{"grpc_type", std::string(TypeOf(method))},
          {"grpc_service", std::string(kServiceName)},
          {"grpc_method", std::string(NameOf(method))}};
}

}  // namespace

GrpcServerMetrics::GrpcServerMetrics(prometheus::Registry* registry) {
  AddCounters(registry);
  AddHistograms(registry);
}

void GrpcServerMetrics::AddCounters(prometheus::Registry* registry) {
  static_assert(std::size(kCodeNames) == kNumCodes);
  auto& started = prometheus::BuildCounter()
                      .Name("grpc_server_started_total")
                      .Help("Calls begun.")
                      .Register(*registry);
  auto& handled = prometheus::BuildCounter()
                      .Name("grpc_server_handled_total")
                      .Help("Calls ended, by status code.")
                      .Register(*registry);
  for (const Method method : kAllMethods) {
    prometheus::Labels labels = LabelsOf(method);
    of(method).started = &started.Add(labels);
    for (size_t code = 0; code < kNumCodes; ++code) {
      labels["grpc_code"] = kCodeNames[code];
      of(method).handled[code] = &handled.Add(labels);
    }
  }
}

void GrpcServerMetrics::AddHistograms(prometheus::Registry* registry) {
  auto& handling = prometheus::BuildHistogram()
                       .Name("grpc_server_handling_seconds")
                       .Help("Time from a request's arrival to its reply.")
                       .Register(*registry);
  auto& received = prometheus::BuildHistogram()
                       .Name("grpc_server_received_bytes")
                       .Help("Size of request messages.")
                       .Register(*registry);
  auto& sent = prometheus::BuildHistogram()
                   .Name("grpc_server_sent_bytes")
                   .Help("Size of reply messages.")
                   .Register(*registry);
  for (const Method method : kAllMethods) {
    const prometheus::Labels labels = LabelsOf(method);
    of(method).handling_seconds = &handling.Add(labels, LatencyBounds());
    of(method).received_bytes = &received.Add(labels, SizeBounds());
    of(method).sent_bytes = &sent.Add(labels, SizeBounds());
  }
}

void GrpcServerMetrics::Started(Method method) {
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
