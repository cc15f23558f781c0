// The mutating calls of a namespace, each made once however often it comes.

#ifndef TENSORKV_SERVICE_STORE_ONCE_CALLS_H_
#define TENSORKV_SERVICE_STORE_ONCE_CALLS_H_

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/answer.h"
#include "base/status_macros.h"
#include "contract/any_call.h"
#include "contract/reason.h"
#include "contract/requests.h"
#include "service/store/call_fingerprint.h"
#include "service/store/call_window.h"
#include "service/store/keyspace/namespace.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Makes the calls of a namespace that carry a call_id pass through its
// CallWindow; others go straight on. Verbs as in TensorStore. A namespace with
// such a call under way stays alive.
//
// Every answer is kept, but for those which say that nothing has happened and
// the call may be made again: Unavailable, ResourceExhausted, Cancelled and
// DeadlineExceeded, and WRONG_SERVER, as the keys may come back.
//
// A PushPull keeps the answer to its push, never the values, nor what its pull
// met: an attempt that finds that answer only pulls.
//
// Whoever has the attempt at a call ends it, and before the caller is answered:
// so a caller that calls again at once finds the call ended. The window's mutex
// is not held while a call is made or answered, nor any other.

void InitOnce(const std::shared_ptr<Namespace>& name_space, InitRequest request,
              CallContext context, ReplyCallback<InitReply> done);
void PushOnce(const std::shared_ptr<Namespace>& name_space, PushRequest request,
              CallContext context, ReplyCallback<PushReply> done);
void PushPullOnce(const std::shared_ptr<Namespace>& name_space,
                  PushPullRequest request, CallContext context,
                  ReplyCallback<PullReply> done);
void SetStateOnce(const std::shared_ptr<Namespace>& name_space,
                  SetStateRequest request, CallContext context,
                  ReplyCallback<SetStateReply> done);

void BarrierOnce(const std::shared_ptr<Namespace>& name_space,
                 BarrierRequest request, CallContext context,
                 ReplyCallback<BarrierReply> done);

// Measures how much of the timeout of a call is left; its time runs from the
// construction on.
class RemainingTime {
 public:
  RemainingTime(const Alarms& alarms, absl::Duration timeout)
      : alarms_(alarms), end_(alarms.Now() + timeout) {}
  absl::Duration Get() const { return end_ - alarms_.Now(); }

 private:
  const Alarms& alarms_;
  const absl::Duration end_;
};

// Returns whether the status says that the call has had no effect and may be
// made again.
inline bool MayBeMadeAgain(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
      return true;
    default:
      return ReasonOf(status) == Reason::kWrongServer;
  }
}

// Returns what a window keeps of an answer: an error, or the reply, without a
// value where the reply has no fields.
template <typename Reply>
CallAnswer AnswerToKeep(const absl::StatusOr<Reply>& reply) {
  if (!reply.ok()) return reply.status();
  if constexpr (kIsEmptyReply<Reply>) {
    return CallReply();
  } else {
    return CallReply(*reply);
  }
}

// Returns the kept answer as the reply or error of the call. Errors: Internal
// (the answer is one to another kind of call).
template <typename Reply>
absl::StatusOr<Reply> ReplyOf(const CallAnswer& answer) {
  if (!answer.ok()) return answer.status();
  if constexpr (kIsEmptyReply<Reply>) {
    if (std::holds_alternative<std::monostate>(*answer)) return Reply();
  } else {
    if (const Reply* reply = std::get_if<Reply>(&*answer)) return *reply;
  }
  return absl::InternalError("call_id: the answer kept is of another call");
}

// Keeps the answer unless the call may be made again.
template <typename Reply>
void KeepIfMade(CallWindow::Attempt& attempt,
                const absl::StatusOr<Reply>& reply) {
  if (!MayBeMadeAgain(reply.status())) attempt.Keep(AnswerToKeep(reply));
}

// Returns a callback that keeps the answer, unless the call may be made again,
// ends the attempt and calls `done`.
template <typename Reply>
ReplyCallback<Reply> KeepAndAnswer(CallWindow::Attempt attempt,
                                   ReplyCallback<Reply> done) {
  return [attempt = std::move(attempt),
          done = std::move(done)](absl::StatusOr<Reply> reply) mutable {
    KeepIfMade(attempt, reply);
    attempt.End();
    std::move(done)(std::move(reply));
  };
}

// Enters the call into `calls`. If it has an answer, calls `done` with that,
// else `make(done)`, which makes the call and calls its `done`.
template <typename Reply, typename Make>
void Once(CallWindow& calls, const CallIdentity& identity,
          const CallContext& context, ReplyCallback<Reply> done, Make make) {
  calls.Enter(identity, context,
              [make = std::move(make), done = std::move(done)](
                  absl::StatusOr<CallWindow::Attempt> attempt) mutable {
                if (!attempt.ok()) return std::move(done)(attempt.status());
                if (attempt->answer() == nullptr) {
                  return make(KeepAndAnswer<Reply>(*std::move(attempt),
                                                   std::move(done)));
                }
                absl::StatusOr<Reply> reply =
                    ReplyOf<Reply>(*attempt->answer());
                attempt->End();
                std::move(done)(std::move(reply));
              });
}

// For calls that take no longer than to get the namespace's mutex and to hold
// it, or that come on threads for what takes long: `make` returns the reply,
// and the wait for another attempt blocks the thread until the call's time is
// over or its caller gives up.
template <typename Request, typename Make>
absl::StatusOr<ReplyTo<Request>> OnceBlocking(CallWindow& calls,
                                              const Request& request,
                                              const CallContext& context,
                                              Make make) {
  using Reply = ReplyTo<Request>;
  const std::optional<CallId> call_id = CallIdIn(request);
  if (!call_id) {
    RETURN_IF_ERROR(context.caller.unless_remembered);
    return make();
  }
  // Memory for a reply that has a rule; other replies need no more than any
  // has.
  constexpr uint64_t kAnswerBytes =
      std::is_same_v<Reply, SetHyperparametersReply> ? 1536 : 0;
  const Answer<absl::StatusOr<Reply>> answer;
  // Another thread may run `make`, when it lets this attempt begin, but not
  // after this one has gone on.
  Once<Reply>(
      calls, {*call_id, Fingerprint(request), kAnswerBytes},
      {.caller = context.caller,
       .timeout = context.timeout,
       .cancellation = context.cancellation},
      [answer](absl::StatusOr<Reply> reply) { answer.Set(std::move(reply)); },
      [make](ReplyCallback<Reply> done) { std::move(done)(make()); });
  return answer.Wait();
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_ONCE_CALLS_H_
