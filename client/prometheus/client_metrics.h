// The metrics of a client, in a Prometheus registry.

#ifndef TENSORKV_CLIENT_PROMETHEUS_CLIENT_METRICS_H_
#define TENSORKV_CLIENT_PROMETHEUS_CLIENT_METRICS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/client_observer.h"
#include "contract/code_names.h"
#include "contract/method.h"

namespace prometheus {
class Counter;
class Histogram;
class Registry;
template <typename T>
class Family;
}  // namespace prometheus

namespace tensorkv {

// Counts calls under the conventional names of gRPC client metrics:
//
//   grpc_client_started_total     calls begun
//   grpc_client_handled_total     calls ended, by grpc_code
//   grpc_client_handling_seconds  how long they took
//
// all with the labels grpc_type, grpc_service and grpc_method;
//
//   tensorkv_client_sent_bytes_total      bytes of the tensors sent
//   tensorkv_client_received_bytes_total  bytes of the tensors received
//
// and of the contributions that are encoded, by encoding:
//
//   tensorkv_client_compression_input_bytes_total   bytes before
//   tensorkv_client_compression_output_bytes_total  bytes after
//
// Thread-safe. Clients that share a registry share its series.
class ClientMetrics final : public ClientObserver {
 public:
  // Keeps `registry` alive.
  explicit ClientMetrics(std::shared_ptr<prometheus::Registry> registry);

  void OnStarted(Method method, int64_t sent_bytes) override;
  void OnEnded(Method method, absl::StatusCode code, absl::Duration taken,
               int64_t received_bytes) override;
  void OnEncoded(Compression::Kind kind, int64_t bytes_before,
                 int64_t bytes_after) override;

 private:
  // The series of one method, which are found once: looking one up takes a lock
  // and hashes its labels.
  struct Series {
    prometheus::Counter* started = nullptr;
    prometheus::Histogram* handling_seconds = nullptr;
    // By status code; null until a call first ends with that code.
    std::array<std::atomic<prometheus::Counter*>, kNumCodes> handled = {};
  };

  Series& SeriesOf(Method method) {
    return series_[static_cast<size_t>(method)];
  }
  // Returns the counter of calls that end with that code.
  prometheus::Counter& Handled(Method method, absl::StatusCode code);

  const std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Counter>& handled_family_;
  prometheus::Counter& sent_bytes_;
  prometheus::Counter& received_bytes_;
  prometheus::Family<prometheus::Counter>& input_bytes_;
  prometheus::Family<prometheus::Counter>& output_bytes_;
  std::array<Series, kNumMethods> series_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_PROMETHEUS_CLIENT_METRICS_H_
