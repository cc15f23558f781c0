// Tells an observer of the calls of a connection.

#ifndef TENSORKV_CLIENT_INTERNAL_METERED_CONNECTION_H_
#define TENSORKV_CLIENT_INTERNAL_METERED_CONNECTION_H_

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "client/client_observer.h"
#include "client/connection.h"

namespace tensorkv {

// Counts and times each attempt at a call. Thread-safe. `now` is a monotonic
// clock.
class MeteredConnection final : public Connection {
 public:
  MeteredConnection(std::unique_ptr<Connection> inner,
                    std::shared_ptr<ClientObserver> observer,
                    std::function<absl::Duration()> now);

  absl::Status Attempt(const AnyCall& call,
                       const CallOptions& options) override;
  bool CastsAsItSends() const override { return inner_->CastsAsItSends(); }
  void Start(const AnyCall& call, const CallOptions& options,
             CallThreads& threads, Done done) override;

 private:
  // Tells the observer that an attempt that began at `start` has ended.
  void TellEnd(const AnyCall& call, const absl::Status& status,
               absl::Duration start);

  const std::unique_ptr<Connection> inner_;
  const std::function<absl::Duration()> now_;
  const std::shared_ptr<ClientObserver> observer_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_METERED_CONNECTION_H_
