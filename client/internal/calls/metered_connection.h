// Tells an observer of the calls of a connection.

#ifndef TENSORKV_CLIENT_INTERNAL_CALLS_METERED_CONNECTION_H_
#define TENSORKV_CLIENT_INTERNAL_CALLS_METERED_CONNECTION_H_

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "client/client_observer.h"
#include "client/connection.h"
#include "client/internal/calls/awaited.h"
#include "client/internal/calls/task.h"

namespace tensorkv {

// Counts and times each attempt at a call. Thread-safe. `now` is a monotonic
// clock.
class MeteredConnection final : public TaskConnection {
 public:
  MeteredConnection(std::unique_ptr<Connection> inner,
                    std::shared_ptr<ClientObserver> observer,
                    std::function<absl::Duration()> now);

  bool CastsAsItSends() const override { return inner_->CastsAsItSends(); }

 private:
  Task<absl::Status> Make(AnyCall call, CallOptions options,
                          CallThreads* threads) override;

  const std::unique_ptr<Connection> inner_;
  const std::function<absl::Duration()> now_;
  const std::shared_ptr<ClientObserver> observer_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_CALLS_METERED_CONNECTION_H_
