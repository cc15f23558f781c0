// The metrics of a client, in a Prometheus registry.

#ifndef TENSORKV_CLIENT_INTERNAL_CLIENT_METRICS_H_
#define TENSORKV_CLIENT_INTERNAL_CLIENT_METRICS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace prometheus {
class Counter;
class Histogram;
class Registry;
template <typename T>
class Family;
}  // namespace prometheus

namespace tensorkv {

// The RPCs that a Connection makes.
enum class Verb {
  kInit,
  kPush,
  kPull,
  kPushPull,
  kDelete,
  kList,
  kStat,
  kCreateNamespace,
  kDescribeNamespace,
  kListNamespaces,
  kDeleteNamespace,
  kSetRule,
  kUnsetRule,
  kSetHyperparameters,
  kJoin,
  kKeepAlive,
  kLeave,
  kBarrier,
  kDescribeServer,
};
inline constexpr int kNumVerbs = 19;

// Its name in the contract: "Init", "Push", ...
absl::string_view NameOf(Verb verb);

// Counts calls under the conventional names of gRPC client metrics:
//
//   grpc_client_started_total     calls begun
//   grpc_client_handled_total     calls ended, by grpc_code
//   grpc_client_handling_seconds  how long they took
//
// all with the labels grpc_type, grpc_service and grpc_method; and
//
//   tensorkv_client_sent_bytes_total      bytes of the tensors sent
//   tensorkv_client_received_bytes_total  bytes of the tensors received
//
// Thread-safe. Clients that share a registry share its series.
class ClientMetrics {
 public:
  // Keeps `registry` alive.
  explicit ClientMetrics(std::shared_ptr<prometheus::Registry> registry);

  void CountStarted(Verb verb);
  void CountHandled(Verb verb, absl::StatusCode code, absl::Duration taken);
  void CountSent(int64_t bytes);
  void CountReceived(int64_t bytes);

 private:
  static constexpr int kNumCodes = 17;

  // Found once, since looking a series up takes a lock and hashes its labels.
  struct Series {
    prometheus::Counter* started = nullptr;
    prometheus::Histogram* handling_seconds = nullptr;
    // By code; null until a call first ends with it.
    std::array<std::atomic<prometheus::Counter*>, kNumCodes> handled = {};
  };

  prometheus::Counter& Handled(Verb verb, absl::StatusCode code);

  const std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Counter>& handled_family_;
  prometheus::Counter& sent_bytes_;
  prometheus::Counter& received_bytes_;
  std::array<Series, kNumVerbs> series_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_CLIENT_METRICS_H_
