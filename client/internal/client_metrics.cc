#include "client/internal/client_metrics.h"

#include <iterator>
#include <string>
#include <utility>

#include "base/histogram_buckets.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace tensorkv {
namespace {

constexpr absl::string_view kVerbNames[kNumVerbs] = {
    "Init",
    "Push",
    "Pull",
    "PushPull",
    "Delete",
    "List",
    "Stat",
    "CreateNamespace",
    "DescribeNamespace",
    "ListNamespaces",
    "DeleteNamespace",
    "SetRule",
    "UnsetRule",
    "SetHyperparameters",
    "Join",
    "KeepAlive",
    "Leave",
    "Barrier",
    "DescribeServer",
};

// The spelling of the other gRPC metrics libraries.
constexpr absl::string_view kCodeNames[] = {
    "OK",
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
    "Unauthenticated",
};
static_assert(static_cast<int>(absl::StatusCode::kUnauthenticated) + 1 ==
              std::size(kCodeNames));

prometheus::Labels LabelsOf(Verb verb) {
  return {{"grpc_type", "unary"},
          {"grpc_service", "tensorkv.v1.TensorKV"},
          {"grpc_method", std::string(NameOf(verb))}};
}

prometheus::Family<prometheus::Counter>& CounterFamily(
    prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Histogram::BucketBoundaries LatencyBuckets() {
  return {std::begin(kLatencyBucketsSeconds), std::end(kLatencyBucketsSeconds)};
}

// A code beyond the known ones counts as Unknown.
size_t IndexOf(absl::StatusCode code) {
  const auto index = static_cast<size_t>(code);
  return index < std::size(kCodeNames)
             ? index
             : static_cast<size_t>(absl::StatusCode::kUnknown);
}

}  // namespace

absl::string_view NameOf(Verb verb) {
  return kVerbNames[static_cast<int>(verb)];
}

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
                          .Add({})) {
  auto& started =
      CounterFamily(*registry_, "grpc_client_started_total", "Calls begun.");
  auto& handling = prometheus::BuildHistogram()
                       .Name("grpc_client_handling_seconds")
                       .Help("How long calls took.")
                       .Register(*registry_);
  for (int i = 0; i < kNumVerbs; ++i) {
    const prometheus::Labels labels = LabelsOf(static_cast<Verb>(i));
    series_[i].started = &started.Add(labels);
    series_[i].handling_seconds = &handling.Add(labels, LatencyBuckets());
  }
}

void ClientMetrics::CountStarted(Verb verb) {
  series_[static_cast<int>(verb)].started->Increment();
}

void ClientMetrics::CountHandled(Verb verb, absl::StatusCode code,
                                 absl::Duration taken) {
  Handled(verb, code).Increment();
  series_[static_cast<int>(verb)].handling_seconds->Observe(
      absl::ToDoubleSeconds(taken));
}

void ClientMetrics::CountSent(int64_t bytes) {
  sent_bytes_.Increment(static_cast<double>(bytes));
}

void ClientMetrics::CountReceived(int64_t bytes) {
  received_bytes_.Increment(static_cast<double>(bytes));
}

prometheus::Counter& ClientMetrics::Handled(Verb verb, absl::StatusCode code) {
  const size_t index = IndexOf(code);
  auto& cached = series_[static_cast<int>(verb)].handled[index];
  prometheus::Counter* counter = cached.load(std::memory_order_acquire);
  if (counter == nullptr) {
    prometheus::Labels labels = LabelsOf(verb);
    labels["grpc_code"] = std::string(kCodeNames[index]);
    // Threads that get here together find the same counter.
    counter = &handled_family_.Add(labels);
    cached.store(counter, std::memory_order_release);
  }
  return *counter;
}

}  // namespace tensorkv
