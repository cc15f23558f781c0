// The conventional metrics of a gRPC server.

#ifndef TENSORKV_SERVICE_METRICS_GRPC_SERVER_METRICS_H_
#define TENSORKV_SERVICE_METRICS_GRPC_SERVER_METRICS_H_

#include <array>
#include <mutex>

#include "contract/code_names.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "service/metrics/call_observer.h"

namespace tensorkv {

// Counts calls under the names and labels that dashboards for gRPC servers
// expect (those of go-grpc-prometheus, as etcd has them):
//
//   grpc_server_started_total      calls begun
//   grpc_server_handled_total      calls ended, also by grpc_code
//   grpc_server_handling_seconds   time from request to reply
//   grpc_server_received_bytes     size of requests
//   grpc_server_sent_bytes         size of replies
//
// labels: grpc_type, grpc_service, grpc_method. All series of a method exist
// from its first call on, with 0, so that its first error shows as an increase;
// methods that nobody calls have none but grpc_server_started_total.
// Thread-safe.
class GrpcServerMetrics final : public CallObserver {
 public:
  // `registry` outlives this object.
  explicit GrpcServerMetrics(prometheus::Registry* registry);

  void Started(Method method) override;
  void Handled(Method method, const CallOutcome& outcome) override;

 private:
  // Handles of one method's series, so that a call looks nothing up.
  struct MethodMetrics {
    prometheus::Counter* started = nullptr;
    // The others are set by the first call.
    std::once_flag once;
    std::array<prometheus::Counter*, kNumCodes> handled = {};
    prometheus::Histogram* handling_seconds = nullptr;
    prometheus::Histogram* received_bytes = nullptr;
    prometheus::Histogram* sent_bytes = nullptr;
  };

  // Adds the series that a method has from its first call on.
  void AddSeries(Method method);
  MethodMetrics& of(Method method) {
    return methods_[static_cast<size_t>(method)];
  }

  using Histograms = prometheus::Family<prometheus::Histogram>;

  prometheus::Family<prometheus::Counter>& handled_;
  Histograms& handling_seconds_;
  Histograms& received_bytes_;
  Histograms& sent_bytes_;
  std::array<MethodMetrics, kNumMethods> methods_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_GRPC_SERVER_METRICS_H_
