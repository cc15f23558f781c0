// Makes the calls of a client, and of the clients that are made of it.

#ifndef TENSORKV_CLIENT_INTERNAL_CALLS_CLIENT_CALLS_H_
#define TENSORKV_CLIENT_INTERNAL_CALLS_CLIENT_CALLS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/call_threads.h"
#include "client/connection.h"
#include "client/internal/calls/call_id_leases.h"
#include "client/internal/calls/task.h"
#include "contract/any_call.h"
#include "contract/method.h"

namespace tensorkv {

// Adds to a connection what every call of a client has: the call_id under which
// it is repeated, its end by a canceller, values where the options want them,
// and errors that say what was attempted. Thread-safe.
class ClientCalls {
 public:
  // Errors name `target`; where that is empty they come without prefix.
  ClientCalls(std::unique_ptr<Connection> connection, std::string target)
      : connection_(std::move(connection)), target_(std::move(target)) {}

  // Makes a call. Sets the call_id of a request that may have one, for all
  // attempts at the call. With `threads`, on which runs what has to block, the
  // task waits without a thread. Sets `*is_answered`, if given, to whether a
  // reply has come, although it may be of no use. Defined for the request of
  // every unary method.
  // Errors: InvalidArgument for an entry without ids in a call of rows, and for
  // one with ids in another, as a server says it, and for a tensor that lacks
  // its memory · those of the verb.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> Make(Request& request,
                                              const CallOptions& options,
                                              CallThreads* threads,
                                              bool* is_answered = nullptr);
  // Makes a call as Make does, and waits for it.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> Call(Request& request,
                                        const CallOptions& options) {
    return Make(request, options, /*threads=*/nullptr).Run();
  }
  // Makes a call as Call does, with the call_id that the request has, or
  // without one.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> Send(const Request& request,
                                        const CallOptions& options) {
    return Attempt(request, options, nullptr, nullptr).Run();
  }

  // Returns whether Call takes casts.
  bool CastsAsItSends() const { return connection_->CastsAsItSends(); }

  // Returns `status`, an error, with a prefix that says what was attempted:
  // "Push to 127.0.0.1:7363: ...".
  absl::Status Explain(Method method, const absl::Status& status) const;

 private:
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> Attempt(const Request& request,
                                                 const CallOptions& options,
                                                 CallThreads* threads,
                                                 bool* is_answered);
  // Returns the outcome of a call that ended with `status`.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> Outcome(const Request& request,
                                           const CallOptions& options,
                                           absl::Status status,
                                           ReplyTo<Request>& reply) const;

  const std::unique_ptr<Connection> connection_;
  const std::string target_;
  CallIdLeases call_ids_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_CALLS_CLIENT_CALLS_H_
