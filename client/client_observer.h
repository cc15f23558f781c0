// Declares who is told of the calls of a client.

#ifndef TENSORKV_CLIENT_CLIENT_OBSERVER_H_
#define TENSORKV_CLIENT_CLIENT_OBSERVER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/compression/compression.h"
#include "contract/method.h"

namespace tensorkv {

// Is told of the calls of a client, for metrics of any kind;
// client/prometheus/client_metrics.h is for Prometheus. The threads of the
// calls call it: implementations are thread-safe, and return at once.
class ClientObserver {
 public:
  virtual ~ClientObserver() = default;

  // An attempt at a call begins, and sends so many bytes of tensors. A call
  // that is retried has several.
  virtual void OnStarted(Method method, int64_t sent_bytes) = 0;
  // An attempt has ended, and has brought so many bytes of tensors.
  virtual void OnEnded(Method method, absl::StatusCode code,
                       absl::Duration taken, int64_t received_bytes) = 0;
  // A contribution was encoded.
  virtual void OnEncoded(Compression::Kind kind, int64_t bytes_before,
                         int64_t bytes_after) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLIENT_OBSERVER_H_
