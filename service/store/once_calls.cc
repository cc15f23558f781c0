#include "service/store/once_calls.h"

#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "service/store/call_fingerprint.h"

namespace tensorkv {
namespace {

// Returns whether the elements were left where they were received; what was
// staged is counted already.
bool IsUncounted(const Tensor& tensor) {
  return tensor.has_data() && !tensor.buffer()->account();
}

template <typename Request>
uint64_t BytesOfEntries(const Request& request) {
  uint64_t bytes = 0;
  uint64_t uncounted_bytes = 0;
  for (const auto& entry : request.entries) {
    bytes += sizeof(entry) + entry.key.capacity();
    if (IsUncounted(entry.tensor)) uncounted_bytes += entry.tensor.size_bytes();
    if constexpr (requires { entry.encoding; }) {
      if (entry.encoding) bytes += sizeof(Encoding);
      if (entry.rows) bytes += entry.rows->tensor().size_bytes();
    }
  }
  // They keep slices, of which up to a sixth is something else.
  return bytes + uncounted_bytes + uncounted_bytes / 5;
}

// Makes the call by `make(namespace, request, context, done)`, unless it has an
// answer, which takes `bytes_per_result` for each of its entries.
template <typename Request, typename Reply, typename Make>
void MakeOnce(const std::shared_ptr<Namespace>& name_space, Request request,
              CallContext context, ReplyCallback<Reply> done,
              uint64_t bytes_per_result, Make make) {
  std::optional<CallId> call_id = CallIdIn(request);
  if (!call_id) {
    const absl::Status& refusal = context.caller.unless_remembered;
    if (!refusal.ok()) return std::move(done)(refusal);
    return make(*name_space, std::move(request), std::move(context),
                std::move(done));
  }
  CallIdentity identity = {.id = *std::move(call_id),
                           .fingerprint = Fingerprint(request),
                           .is_push = std::is_same_v<Request, PushRequest>};
  if constexpr (requires { request.entries; }) {
    identity.answer_bytes = request.entries.size() * bytes_per_result;
    identity.request_bytes = BytesOfEntries(request);
  }
  const RemainingTime time_left(name_space->alarms(), context.timeout);
  Once<Reply>(name_space->calls(), identity, context, std::move(done),
              [name_space, request = std::move(request), context, time_left,
               make](ReplyCallback<Reply> done) mutable {
                context.timeout = time_left.Get();
                make(*name_space, std::move(request), std::move(context),
                     std::move(done));
              });
}

// A PushPull on its way, kept by whatever it waits for. It is ended once, by
// the stage that has it then: the window that gives it no attempt, the push
// that is refused, or the pull, whose end is its own. Its answer is kept when
// the push has ended, but its attempt lasts until the pull has: a repeat that
// came between would pull beside it.
struct PushPullCall {
  const std::shared_ptr<Namespace> name_space;
  PushPullRequest request;
  // Up to which the values are to have the worker's steps.
  const Step step;
  // Its entries are taken from the request when the push is in.
  PullRequest pull;
  const RemainingTime time_left;
  CallContext context;
  ReplyCallback<PullReply> done;
  std::optional<CallWindow::Attempt> attempt;
};

void End(PushPullCall& call, absl::StatusOr<PullReply> reply) {
  if (call.attempt) call.attempt->End();
  std::move(call.done)(std::move(reply));
}

void PullOf(std::shared_ptr<PushPullCall> call) {
  CallContext context = call->context;
  context.timeout = call->time_left.Get();
  PushPullCall& its = *call;
  its.name_space->PullOfPush(
      std::move(its.pull), its.step, std::move(context),
      [call = std::move(call)](absl::StatusOr<PullReply> reply) {
        End(*call, std::move(reply));
      });
}

void PushAndPull(std::shared_ptr<PushPullCall> call) {
  CallContext context = call->context;
  context.timeout = call->time_left.Get();
  PushPullCall& its = *call;
  its.name_space->Push(
      std::move(its.request), context, &its.pull,
      [call = std::move(call)](absl::StatusOr<PushReply> pushed) mutable {
        if (call->attempt) {
          KeepIfMade(*call->attempt, pushed);
        }
        if (!pushed.ok()) return End(*call, pushed.status());
        PullOf(std::move(call));
      });
}

// Pulls by the answer to the push that an earlier attempt has left.
void PullAgain(std::shared_ptr<PushPullCall> call) {
  const CallAnswer& answer = *call->attempt->answer();
  if (!answer.ok()) return End(*call, answer.status());
  for (PushEntry& entry : call->request.entries) {
    call->pull.entries.push_back({std::move(entry.key)});
  }
  PullOf(std::move(call));
}

}  // namespace

void InitOnce(const std::shared_ptr<Namespace>& name_space, InitRequest request,
              CallContext context, ReplyCallback<InitReply> done) {
  MakeOnce(name_space, std::move(request), std::move(context), std::move(done),
           sizeof(Version),
           [](Namespace& in, auto... call) { in.Init(std::move(call)...); });
}

void PushOnce(const std::shared_ptr<Namespace>& name_space, PushRequest request,
              CallContext context, ReplyCallback<PushReply> done) {
  MakeOnce(name_space, std::move(request), std::move(context), std::move(done),
           sizeof(PushResult),
           [](Namespace& in, auto... call) { in.Push(std::move(call)...); });
}

void SetStateOnce(const std::shared_ptr<Namespace>& name_space,
                  SetStateRequest request, CallContext context,
                  ReplyCallback<SetStateReply> done) {
  MakeOnce(name_space, std::move(request), std::move(context), std::move(done),
           sizeof(Version), [](Namespace& in, auto... call) {
             in.SetState(std::move(call)...);
           });
}

void BarrierOnce(const std::shared_ptr<Namespace>& name_space,
                 BarrierRequest request, CallContext context,
                 ReplyCallback<BarrierReply> done) {
  MakeOnce(name_space, std::move(request), std::move(context), std::move(done),
           /*bytes_per_result=*/0,
           [](Namespace& in, auto... call) { in.Barrier(std::move(call)...); });
}

void PushPullOnce(const std::shared_ptr<Namespace>& name_space,
                  PushPullRequest request, CallContext context,
                  ReplyCallback<PullReply> done) {
  const Step step = request.step == 0 ? UINT64_MAX : request.step;
  const RemainingTime time_left(name_space->alarms(), context.timeout);
  const auto call = std::make_shared<PushPullCall>(PushPullCall{
      name_space, std::move(request), step, PullRequest(), time_left,
      std::move(context), std::move(done), std::nullopt});
  call->pull.worker = call->request.worker;
  call->pull.dtype = call->request.dtype;
  if (!call->request.call_id) {
    const absl::Status& refusal = call->context.caller.unless_remembered;
    return refusal.ok() ? PushAndPull(call) : End(*call, refusal);
  }
  const CallIdentity identity = {
      *call->request.call_id, Fingerprint(call->request),
      call->request.entries.size() * sizeof(PushResult),
      BytesOfEntries(call->request), /*is_push=*/true};
  name_space->calls().Enter(
      identity, call->context,
      [call](absl::StatusOr<CallWindow::Attempt> attempt) mutable {
        if (!attempt.ok()) return End(*call, attempt.status());
        call->attempt.emplace(*std::move(attempt));
        if (call->attempt->answer() == nullptr) {
          return PushAndPull(std::move(call));
        }
        PullAgain(std::move(call));
      });
}

}  // namespace tensorkv
