// Counts and times the calls of a connection.

#ifndef TENSORKV_CLIENT_INTERNAL_METERED_CONNECTION_H_
#define TENSORKV_CLIENT_INTERNAL_METERED_CONNECTION_H_

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "client/connection.h"
#include "client/internal/client_metrics.h"

namespace tensorkv {

// Adds metrics to a connection. Thread-safe. `now` is a monotonic clock.
class MeteredConnection final : public Connection {
 public:
  MeteredConnection(std::unique_ptr<Connection> inner,
                    std::shared_ptr<prometheus::Registry> registry,
                    std::function<absl::Duration()> now);

  absl::Status Attempt(const AnyCall& call,
                       const CallOptions& options) override;

 private:
  const std::unique_ptr<Connection> inner_;
  const std::function<absl::Duration()> now_;
  ClientMetrics metrics_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_METERED_CONNECTION_H_
