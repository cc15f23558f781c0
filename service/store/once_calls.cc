#include "service/store/once_calls.h"

#include <optional>
#include <utility>
#include <vector>

namespace tensorkv {
namespace {

// Returns whether the elements were left where they were received; what was
// staged is counted already.
bool IsUncounted(const Tensor& tensor) {
  return tensor.has_data() && tensor.buffer()->account() == nullptr;
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
      if (entry.delta) {
        bytes += sizeof(PushedDelta) + entry.delta->base.capacity();
      }
      if (entry.rows) bytes += entry.rows->tensor().size_bytes();
    }
  }
  if constexpr (requires { request.publish_as; }) {
    if (request.publish_as) bytes += request.publish_as->SpaceUsedLong();
  }
  // They keep slices, of which up to a sixth is something else.
  return bytes + uncounted_bytes + uncounted_bytes / 5;
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
  const auto answer = [&] { std::move(call.done)(std::move(reply)); };
  if (!call.attempt) return answer();
  call.attempt->End(answer);
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

uint64_t BytesToKeep(const InitRequest& request) {
  return BytesOfEntries(request);
}
uint64_t BytesToKeep(const PushRequest& request) {
  return BytesOfEntries(request);
}
uint64_t BytesToKeep(const SetStateRequest& request) {
  return BytesOfEntries(request);
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
  name_space->calls().Enter(
      IdentityOf(*call->request.call_id, call->request), call->context,
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
