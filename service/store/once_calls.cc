#include "service/store/once_calls.h"

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/answer.h"
#include "service/store/call_fingerprint.h"

namespace tensorkv {
namespace {

using Turn = CallWindow::Turn;

// Room for the rule as SetHyperparameters answers it.
constexpr uint64_t kRuleBytes = 1024;

// Without their tensors.
template <typename Request>
uint64_t BytesOfEntries(const Request& request) {
  uint64_t bytes = 0;
  for (const auto& entry : request.entries) {
    bytes += sizeof(entry) + entry.key.capacity();
  }
  return bytes;
}

// Whether the status says that nothing has happened, for now.
bool MayBeMadeAgain(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
      return true;
    default:
      return false;
  }
}

// What a window keeps of an answer.
template <typename Reply>
CallAnswer Kept(const absl::StatusOr<Reply>& reply) {
  if (!reply.ok()) return reply.status();
  return CallReply(*reply);
}

template <typename Reply>
absl::StatusOr<Reply> As(const CallAnswer& answer) {
  if (!answer.ok()) return answer.status();
  if (const Reply* reply = std::get_if<Reply>(&*answer)) return *reply;
  return absl::InternalError("call_id: the answer kept is of another call");
}

template <typename Reply>
void KeepUnlessNothingHappened(Turn& turn, const absl::StatusOr<Reply>& reply) {
  if (!MayBeMadeAgain(reply.status())) turn.Keep(Kept(reply));
}

// `done`, after the answer has been kept and the turn has ended.
template <typename Reply>
ReplyCallback<Reply> Keeping(Turn turn, ReplyCallback<Reply> done) {
  return [turn = std::move(turn),
          done = std::move(done)](absl::StatusOr<Reply> reply) mutable {
    KeepUnlessNothingHappened(turn, reply);
    turn.End();
    std::move(done)(std::move(reply));
  };
}

// `make(done)` makes the call if it has no answer yet.
template <typename Reply, typename Make>
void Once(CallWindow& calls, const CallIdentity& identity,
          const CallContext& context, ReplyCallback<Reply> done, Make make) {
  calls.Enter(
      identity, context,
      [make = std::move(make),
       done = std::move(done)](absl::StatusOr<Turn> turn) mutable {
        if (!turn.ok()) return std::move(done)(turn.status());
        if (turn->answer() == nullptr) {
          return make(Keeping<Reply>(*std::move(turn), std::move(done)));
        }
        absl::StatusOr<Reply> reply = As<Reply>(*turn->answer());
        turn->End();
        std::move(done)(std::move(reply));
      });
}

// The same on this thread, which waits. `make` returns the reply.
template <typename Reply, typename Request, typename Make>
absl::StatusOr<Reply> OnceHere(CallWindow& calls, const Request& request,
                               const CallContext& context,
                               uint64_t answer_bytes, Make make) {
  if (!request.call_id) return make();
  const Answer<absl::StatusOr<Reply>> answer;
  // Another thread may run `make`, when it gives this attempt its turn, but not
  // after this one has gone on.
  Once<Reply>(
      calls, {*request.call_id, Fingerprint(request), answer_bytes},
      {.caller = context.caller},
      [answer](absl::StatusOr<Reply> reply) { answer.Set(std::move(reply)); },
      [make](ReplyCallback<Reply> done) { std::move(done)(make()); });
  return answer.Wait();
}

// For calls that answer with a status only.
template <typename Request, typename Make>
absl::Status StatusOnceHere(CallWindow& calls, const Request& request,
                            const CallContext& context, Make make) {
  return OnceHere<std::monostate>(calls, request, context, 0,
                                  [&]() -> absl::StatusOr<std::monostate> {
                                    const absl::Status status = make();
                                    if (!status.ok()) return status;
                                    return std::monostate();
                                  })
      .status();
}

// The time that a call has left, of which it has waited some for its turn.
class TimeLeft {
 public:
  TimeLeft(const Alarms& alarms, absl::Duration timeout)
      : alarms_(alarms), end_(alarms.Now() + timeout) {}
  absl::Duration Get() const { return end_ - alarms_.Now(); }

 private:
  const Alarms& alarms_;
  const absl::Duration end_;
};

// A PushPull on its way.
struct Exchange {
  Exchange(const std::shared_ptr<Namespace>& name_space, PushRequest request,
           CallContext context, ReplyCallback<PullReply> done)
      : name_space(name_space),
        worker(request.worker),
        request(std::move(request)),
        time_left(name_space->alarms(), context.timeout),
        context(std::move(context)),
        done(std::move(done)) {}

  const std::shared_ptr<Namespace> name_space;
  const std::optional<Worker> worker;
  PushRequest request;
  const TimeLeft time_left;
  CallContext context;
  ReplyCallback<PullReply> done;
  // Taken from the request when the push is in.
  std::vector<PullEntry> names;
  std::optional<Turn> turn;
};

void End(Exchange& exchange, absl::StatusOr<PullReply> reply) {
  if (exchange.turn) exchange.turn->End();
  std::move(exchange.done)(std::move(reply));
}

void PullOf(std::shared_ptr<Exchange> exchange) {
  PullRequest pull;
  pull.worker = exchange->worker;
  pull.entries = std::move(exchange->names);
  CallContext context = exchange->context;
  context.timeout = exchange->time_left.Get();
  Namespace& name_space = *exchange->name_space;
  name_space.Pull(
      std::move(pull), std::move(context),
      [exchange = std::move(exchange)](absl::StatusOr<PullReply> reply) {
        End(*exchange, std::move(reply));
      });
}

void PushAndPull(std::shared_ptr<Exchange> exchange) {
  Namespace& name_space = *exchange->name_space;
  CallContext context = exchange->context;
  context.timeout = exchange->time_left.Get();
  Exchange& its = *exchange;
  name_space.Push(std::move(its.request), context, &its.names,
                  [exchange = std::move(exchange)](
                      absl::StatusOr<PushReply> pushed) mutable {
                    if (exchange->turn) {
                      KeepUnlessNothingHappened(*exchange->turn, pushed);
                    }
                    if (!pushed.ok()) return End(*exchange, pushed.status());
                    PullOf(std::move(exchange));
                  });
}

// With the answer to the push that an earlier attempt has left.
void PullAgain(std::shared_ptr<Exchange> exchange) {
  const CallAnswer& answer = *exchange->turn->answer();
  if (!answer.ok()) return End(*exchange, answer.status());
  for (PushEntry& entry : exchange->request.entries) {
    exchange->names.push_back({std::move(entry.key), 0});
  }
  PullOf(std::move(exchange));
}

}  // namespace

void InitOnce(const std::shared_ptr<Namespace>& name_space, InitRequest request,
              const CallContext& context, ReplyCallback<InitReply> done) {
  if (!request.call_id) {
    return name_space->Init(std::move(request), context, std::move(done));
  }
  const CallIdentity identity = {*request.call_id, Fingerprint(request),
                                 request.entries.size() * sizeof(Version),
                                 BytesOfEntries(request)};
  Once<InitReply>(name_space->calls(), identity, context, std::move(done),
                  [name_space, request = std::move(request),
                   context](ReplyCallback<InitReply> done) mutable {
                    name_space->Init(std::move(request), std::move(context),
                                     std::move(done));
                  });
}

void PushOnce(const std::shared_ptr<Namespace>& name_space, PushRequest request,
              CallContext context, ReplyCallback<PushReply> done) {
  if (!request.call_id) {
    return name_space->Push(std::move(request), context, std::move(done));
  }
  const CallIdentity identity = {*request.call_id, Fingerprint(request),
                                 request.entries.size() * sizeof(PushResult),
                                 BytesOfEntries(request)};
  const TimeLeft time_left(name_space->alarms(), context.timeout);
  Once<PushReply>(name_space->calls(), identity, context, std::move(done),
                  [name_space, request = std::move(request), context,
                   time_left](ReplyCallback<PushReply> done) mutable {
                    context.timeout = time_left.Get();
                    name_space->Push(std::move(request), context,
                                     std::move(done));
                  });
}

void PushPullOnce(const std::shared_ptr<Namespace>& name_space,
                  PushRequest request, CallContext context,
                  ReplyCallback<PullReply> done) {
  const auto exchange = std::make_shared<Exchange>(
      name_space, std::move(request), std::move(context), std::move(done));
  if (!exchange->request.call_id) return PushAndPull(exchange);
  const CallIdentity identity = {
      *exchange->request.call_id, PushPullFingerprint(exchange->request),
      exchange->request.entries.size() * sizeof(PushResult),
      BytesOfEntries(exchange->request)};
  name_space->calls().Enter(identity, exchange->context,
                            [exchange](absl::StatusOr<Turn> turn) mutable {
                              if (!turn.ok())
                                return End(*exchange, turn.status());
                              exchange->turn.emplace(*std::move(turn));
                              if (exchange->turn->answer() == nullptr) {
                                return PushAndPull(std::move(exchange));
                              }
                              PullAgain(std::move(exchange));
                            });
}

void BarrierOnce(const std::shared_ptr<Namespace>& name_space,
                 BarrierRequest request, CallContext context,
                 ReplyCallback<BarrierReply> done) {
  if (!request.call_id) {
    return name_space->Barrier(std::move(request), std::move(context),
                               std::move(done));
  }
  const CallIdentity identity = {*request.call_id, Fingerprint(request)};
  const TimeLeft time_left(name_space->alarms(), context.timeout);
  Once<BarrierReply>(name_space->calls(), identity, context, std::move(done),
                     [name_space, request = std::move(request), context,
                      time_left](ReplyCallback<BarrierReply> done) mutable {
                       context.timeout = time_left.Get();
                       name_space->Barrier(std::move(request),
                                           std::move(context), std::move(done));
                     });
}

absl::StatusOr<DeleteReply> DeleteOnce(Namespace& name_space,
                                       const DeleteRequest& request,
                                       const CallContext& context) {
  return OnceHere<DeleteReply>(name_space.calls(), request, context, 0,
                               [&] { return name_space.Delete(request); });
}

absl::StatusOr<JoinReply> JoinOnce(Namespace& name_space,
                                   const JoinRequest& request,
                                   const CallContext& context) {
  return OnceHere<JoinReply>(name_space.calls(), request, context, 0,
                             [&] { return name_space.Join(request); });
}

absl::Status LeaveOnce(Namespace& name_space, const LeaveRequest& request,
                       const CallContext& context) {
  return StatusOnceHere(name_space.calls(), request, context,
                        [&] { return name_space.Leave(request); });
}

absl::Status SetRuleOnce(Namespace& name_space, const SetRuleRequest& request,
                         const CallContext& context) {
  return StatusOnceHere(name_space.calls(), request, context,
                        [&] { return name_space.SetRule(request); });
}

absl::Status UnsetRuleOnce(Namespace& name_space,
                           const UnsetRuleRequest& request,
                           const CallContext& context) {
  return StatusOnceHere(name_space.calls(), request, context,
                        [&] { return name_space.UnsetRule(request); });
}

absl::StatusOr<RuleSpec> SetHyperparametersOnce(
    Namespace& name_space, const SetHyperparametersRequest& request,
    const CallContext& context) {
  return OnceHere<RuleSpec>(
      name_space.calls(), request, context, kRuleBytes,
      [&] { return name_space.SetHyperparameters(request); });
}

absl::StatusOr<CreateNamespaceReply> CreateNamespaceOnce(
    CallWindow& calls, const CreateNamespaceRequest& request,
    const CallContext& context,
    absl::FunctionRef<absl::StatusOr<CreateNamespaceReply>()> create) {
  return OnceHere<CreateNamespaceReply>(calls, request, context, 0, create);
}

}  // namespace tensorkv
