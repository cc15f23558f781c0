// Says when a call must have ended, and who may end it before.

#ifndef TENSORKV_CLIENT_INTERNAL_CALLS_CALL_DEADLINE_H_
#define TENSORKV_CLIENT_INTERNAL_CALLS_CALL_DEADLINE_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/canceller.h"
#include "grpc/support/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace tensorkv {

// The end of one call's timeout, for all RPCs that the call makes. Immutable,
// thread-safe.
class CallDeadline {
 public:
  // The timeout begins now; one of more than a year is no bound.
  explicit CallDeadline(absl::Duration timeout,
                        std::shared_ptr<Canceller> canceller = nullptr);

  // Errors: DeadlineExceeded if the timeout left no time at all · Cancelled.
  absl::Status CheckTimeLeft() const;

  // Returns what is left until the RPCs of the call end: a little more than the
  // timeout leaves. Never negative.
  absl::Duration TimeLeft() const;

  // Returns null where nobody cancels.
  const std::shared_ptr<Canceller>& canceller() const { return canceller_; }

  // Returns `outcome`. If that is an error, returns Cancelled instead where the
  // caller has cancelled, and DeadlineExceeded where the time is over: what was
  // missing may have been on its way.
  absl::Status InTime(const absl::Status& outcome) const;

  // Sets the deadline of an RPC that is about to begin. The caller has to
  // listen to canceller() by itself.
  void ApplyTo(grpc::ClientContext& context) const;

  // Returns the status of an RPC that has ended. gRPC's own deadline error says
  // nothing, so it is replaced by one that names the timeout; and where gRPC
  // calls a broken connection UNKNOWN, this is Unavailable, as elsewhere.
  absl::Status StatusOf(const grpc::Status& status) const;

 private:
  // Returns the error of a call that has had no answer within its timeout.
  absl::Status NoAnswer() const;
  const absl::Duration timeout_;
  const std::shared_ptr<Canceller> canceller_;
  // On the monotonic clock, which nobody sets.
  const std::optional<gpr_timespec> end_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_CALLS_CALL_DEADLINE_H_
