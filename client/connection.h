// The seam between the client's verbs and whatever answers them.

#ifndef TENSORKV_CLIENT_CONNECTION_H_
#define TENSORKV_CLIENT_CONNECTION_H_

#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/call_threads.h"
#include "client/canceller.h"
#include "client/destination.h"
#include "client/send_cast.h"
#include "contract/any_call.h"
#include "contract/requests.h"

namespace tensorkv {

// Bounds one call, and says where the values that it brings may go.
struct CallOptions {
  // The call ends with DeadlineExceeded when this time has passed.
  absl::Duration timeout = absl::Seconds(30);
  // Ends the call early with Cancelled; null where nobody does.
  std::shared_ptr<Canceller> canceller;
  // Where the values of a reply may be received, one for each entry of the
  // request; they outlive the call. A connection uses all of them or none:
  // the tensors of the reply tell which.
  absl::Span<const Destination> destinations;
  // Say what the elements of a push are cast to as they are sent, one for each
  // entry; empty: all stay as they are. Outlives the call. Only for Attempt of
  // a connection that CastsAsItSends. Errors: InvalidArgument, naming the key,
  // for elements, and sums with residuals, that are not finite; the call has no
  // effect then.
  absl::Span<const SendCast> casts;
};

// Carries calls to a store and brings back its answers: over gRPC, or to a
// store in this process. Thread-safe; calls block until their answer or
// deadline, but for those that are started. Verbs and errors as in
// proto/tensorkv/v1/; Unavailable where no server answers.
class Connection {
 public:
  virtual ~Connection() = default;

  // Makes the call that the type of the request names: an InitRequest calls
  // Init.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> Call(const Request& request,
                                        const CallOptions& options = {}) {
    ReplyTo<Request> reply;
    absl::Status status = Attempt(AnyCall(request, reply), options);
    if (!status.ok()) return status;
    return reply;
  }

  // Makes a call of any method; writes its reply if it succeeds. Decorators
  // that add something to every call, such as retries and metrics, add it here
  // and in Start.
  virtual absl::Status Attempt(const AnyCall& call,
                               const CallOptions& options) = 0;

  // Returns whether Attempt takes casts, and sends parts while the rest is yet
  // to be cast. A connection over gRPC does. Pushes to a cluster, of a worker
  // that has joined, and of calls that are started are cast whole before they
  // are made.
  virtual bool CastsAsItSends() const { return false; }

  // Is told once how a call has ended, on any thread.
  using Done = absl::AnyInvocable<void(absl::Status) &&>;

  // Makes a call as Attempt does, but waits for nothing: what has to block runs
  // on `threads`, or on some of the connection's, and `done` is told, perhaps
  // before this returns. The connection and `threads` outlive the call, as do
  // the request, the reply and the destinations; nothing touches any of them
  // once `done` runs.
  virtual void Start(const AnyCall& call, const CallOptions& options,
                     CallThreads& threads, Done done) {
    threads.Run([this, call, options, done = std::move(done)]() mutable {
      absl::Status status = Attempt(call, options);
      std::move(done)(std::move(status));
    });
  }
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CONNECTION_H_
