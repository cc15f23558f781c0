// The mutating calls of a store, each made once however often it comes.

#ifndef TENSORKV_SERVICE_STORE_ONCE_CALLS_H_
#define TENSORKV_SERVICE_STORE_ONCE_CALLS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/any_call.h"
#include "contract/reason.h"
#include "contract/requests.h"
#include "service/store/call_fingerprint.h"
#include "service/store/call_window.h"
#include "service/store/keyspace/namespace.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Calls that carry a call_id pass through a CallWindow; others go straight on.
//
// Every answer is kept, but for those which say that nothing has happened and
// the call may be made again: Unavailable, ResourceExhausted, Cancelled and
// DeadlineExceeded, and WRONG_SERVER, as the keys may come back.
//
// Whoever has the attempt at a call ends it, and before the caller is answered:
// so a caller that calls again at once finds the call ended. A repeat that
// waits goes on after that answer. The window's mutex is not held while a call
// is made or answered, nor any other. A repeat waits for the attempt before
// without a thread, until its time is over or its caller gives up.

// Makes the call in its namespace, which stays alive until it ends. Keeps the
// answer to the push, never the values, nor what the pull met: an attempt that
// finds that answer only pulls.
void PushPullOnce(const std::shared_ptr<Namespace>& name_space,
                  PushPullRequest request, CallContext context,
                  ReplyCallback<PullReply> done);

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

// Return how many bytes a waiting attempt keeps of its request.
template <typename Request>
requires std::is_base_of_v<google::protobuf::Message, Request> uint64_t
BytesToKeep(const Request& request) {
  return request.SpaceUsedLong();
}
uint64_t BytesToKeep(const InitRequest& request);
uint64_t BytesToKeep(const PushRequest& request);
uint64_t BytesToKeep(const SetStateRequest& request);

// Keeps the answer unless the call may be made again.
template <typename Reply>
void KeepIfMade(CallWindow::Attempt& attempt,
                const absl::StatusOr<Reply>& reply) {
  if (!MayBeMadeAgain(reply.status())) attempt.Keep(AnswerToKeep(reply));
}

// Returns what tells the call from others, and how much is kept of it.
template <typename Request>
CallIdentity IdentityOf(CallId id, const Request& request) {
  CallIdentity identity = {.id = std::move(id),
                           .fingerprint = Fingerprint(request)};
  if constexpr (std::is_base_of_v<PushRequest, Request>) {
    identity.answer_bytes = request.entries.size() * sizeof(PushResult);
    identity.is_push = true;
  } else if constexpr (requires { request.entries; }) {
    identity.answer_bytes = request.entries.size() * sizeof(Version);
  } else if constexpr (std::is_same_v<Request, SetHyperparametersRequest> ||
                       std::is_same_v<Request, UpdateNamespaceRequest>) {
    identity.answer_bytes = 1536;  // it has a rule
  }
  identity.request_bytes = BytesToKeep(request);
  return identity;
}

// Makes the call by `make(request, context, done)`, unless `calls` has its
// answer; `make` keeps alive what it needs. Errors: those of
// CallWindow::Enter, of `make` · Internal (the answer is one to another kind of
// call).
template <typename Request, typename Make>
void MakeOnce(CallWindow& calls, const Alarms& alarms, Request request,
              CallContext context, ReplyCallback<ReplyTo<Request>> done,
              Make make) {
  using Reply = ReplyTo<Request>;
  std::optional<CallId> call_id = CallIdIn(request);
  if (!call_id) {
    const absl::Status& refusal = context.caller.unless_remembered;
    if (!refusal.ok()) return std::move(done)(refusal);
    return make(std::move(request), std::move(context), std::move(done));
  }
  if constexpr (kHasCallId<Request>) {
    const CallIdentity identity = IdentityOf(*std::move(call_id), request);
    const RemainingTime time_left(alarms, context.timeout);
    calls.Enter(
        identity, context,
        [request = std::move(request), context, time_left,
         done = std::move(done), make = std::move(make)](
            absl::StatusOr<CallWindow::Attempt> attempt) mutable {
          if (!attempt.ok()) return std::move(done)(attempt.status());
          if (attempt->answer() != nullptr) {
            absl::StatusOr<Reply> reply = ReplyOf<Reply>(*attempt->answer());
            return attempt->End([&] { std::move(done)(std::move(reply)); });
          }
          context.timeout = time_left.Get();
          make(std::move(request), std::move(context),
               [attempt = *std::move(attempt),
                done = std::move(done)](absl::StatusOr<Reply> reply) mutable {
                 KeepIfMade(attempt, reply);
                 attempt.End([&] { std::move(done)(std::move(reply)); });
               });
        });
  }
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_ONCE_CALLS_H_
