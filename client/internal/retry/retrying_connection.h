// Repeats calls that a server was not there to answer.

#ifndef TENSORKV_CLIENT_INTERNAL_RETRY_RETRYING_CONNECTION_H_
#define TENSORKV_CLIENT_INTERNAL_RETRY_RETRYING_CONNECTION_H_

#include <memory>
#include <utility>

#include "client/connection.h"
#include "client/internal/calls/awaited.h"
#include "client/internal/calls/task.h"
#include "client/internal/retry/retry_loop.h"

namespace tensorkv {

// Adds retries to a connection. Thread-safe.
//
// Repeats on Unavailable, within the call's timeout and ten minutes, every call
// with a call_id, which the server applies once; of the others what has the
// same outcome when done twice: methods whose repeat is harmless
// (contract/method.h), Init and CreateNamespace with KEEP, and Delete with
// allow_missing (whose count is then that of the last attempt). Any other call
// is made once: if it fails with Unavailable, it may or may not have taken
// effect.
class RetryingConnection final : public TaskConnection {
 public:
  RetryingConnection(std::unique_ptr<Connection> inner, const Backoff& backoff,
                     RetryEnvironment environment)
      : inner_(std::move(inner)),
        backoff_(backoff),
        environment_(std::move(environment)) {}

  bool CastsAsItSends() const override { return inner_->CastsAsItSends(); }

 private:
  Task<absl::Status> Make(AnyCall call, CallOptions options,
                          CallThreads* threads) override;

  const std::unique_ptr<Connection> inner_;
  const Backoff backoff_;
  const RetryEnvironment environment_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_RETRY_RETRYING_CONNECTION_H_
