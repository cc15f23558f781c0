// The store as its users see it: the dispatch of calls, in-process clients.

#ifndef TENSORKV_SERVICE_STORE_TENSOR_STORE_H_
#define TENSORKV_SERVICE_STORE_TENSOR_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/answer.h"
#include "contract/any_call.h"
#include "contract/requests.h"
#include "service/store/call_record.h"
#include "service/store/cancellation.h"

namespace tensorkv {

// The name of whoever proves nothing.
inline constexpr char kAnonymous[] = "anonymous";

// Caller says who makes a call, as the transport proves it: who may repeat it,
// and whose stripes may join it.
struct Caller {
  // Without any NUL.
  std::string name = kAnonymous;
  // If not OK, the caller has seen the state of another incarnation: a call
  // whose answer is remembered gets that answer, any other call fails with this
  // status.
  absl::Status unless_remembered;
  // The trace that it says the call is part of, "TRACE-SPAN"; may be empty.
  std::string trace;
  // For the log; may be null: nobody asks why the call takes long.
  std::shared_ptr<CallRecord> record;
};

// CallContext says who makes a call, what bounds it, and how its caller ends it
// early.
struct CallContext {
  Caller caller;
  // How long the call may wait, from now. The store's own bound counts if it is
  // shorter.
  absl::Duration timeout = absl::InfiniteDuration();
  // A Pull or GetState whose values are larger is refused before anything is
  // copied for it, a PushPull before it has any effect.
  uint64_t max_reply_bytes = UINT64_MAX;
  // May be null: the call cannot be cancelled.
  std::shared_ptr<Cancellation> cancellation;
  // What the call takes of its caller's quotas, or nothing. A store keeps it as
  // long as it works for the call, or has work for it waiting for a thread; not
  // while the call waits for others, which must not be refused because of it.
  std::weak_ptr<const void> share;
};

template <typename Reply>
using ReplyCallback = absl::AnyInvocable<void(absl::StatusOr<Reply>) &&>;

// Methods that change namespaces, which a store answers by a method of that
// name.
#define TENSORKV_ADMIN_METHODS(X) \
  X(CreateNamespace)              \
  X(DeleteNamespace)              \
  TENSORKV_NAMESPACE_METHODS(X)

// Calls `start(done)`, and waits on this thread until `done` has the reply: for
// callers that have a thread of their own.
template <typename Reply, typename Start>
absl::StatusOr<Reply> Await(Start start) {
  const Answer<absl::StatusOr<Reply>> answer;
  start(
      [answer](absl::StatusOr<Reply> reply) { answer.Set(std::move(reply)); });
  return answer.Wait();
}

// Keys and values, in namespaces. Thread-safe.
//
// What each verb means, and its errors, is written at the message of its name
// in proto/tensorkv/v1/data.proto. A call is checked whole before any effect.
//
// A call with a call_id that comes again waits for the attempt that is under
// way, and changes nothing.
//
// Calls that may wait, and be it for an attempt before, take a callback. It
// runs exactly once, on the calling thread or on one that made the value ready,
// with no lock held; it must not block. Nobody waits on a thread: ten thousand
// waiting calls cost memory. Calls without an effect that are answered from
// what there is return their reply.
//
// Tensors passed in are host memory and are kept, not copied: their buffers
// must not be written afterwards. Tensors passed out are host memory, shared
// with the store where it can be; they never change.
class TensorStore {
 public:
  virtual ~TensorStore() = default;

  virtual void Init(InitRequest request, CallContext context,
                    ReplyCallback<InitReply> done) = 0;
  virtual void Push(PushRequest request, CallContext context,
                    ReplyCallback<PushReply> done) = 0;
  virtual void Pull(PullRequest request, CallContext context,
                    ReplyCallback<PullReply> done) = 0;
  // Pushes, then pulls the same keys. If the wait for the values fails, the
  // push has taken effect all the same.
  virtual void PushPull(PushPullRequest request, CallContext context,
                        ReplyCallback<PullReply> done) = 0;
  virtual void SetState(SetStateRequest request, CallContext context,
                        ReplyCallback<SetStateReply> done) = 0;
  virtual void GetState(GetStateRequest request, CallContext context,
                        ReplyCallback<GetStateReply> done) = 0;
  virtual void Delete(DeleteRequest request, CallContext context,
                      ReplyCallback<DeleteReply> done) = 0;
  virtual absl::StatusOr<ListReply> List(const ListRequest& request,
                                         const CallContext& context) = 0;
  virtual void Stat(StatRequest request, CallContext context,
                    ReplyCallback<StatReply> done) = 0;
};

// The namespaces of a store, their rules and their workers. Thread-safe. Verbs
// as in proto/tensorkv/v1/namespace.proto and membership.proto; the incarnation
// of a JoinReply is for the server to fill in.
class NamespaceAdmin {
 public:
  virtual ~NamespaceAdmin() = default;

  virtual absl::StatusOr<DescribeNamespaceReply> DescribeNamespace(
      const DescribeNamespaceRequest& request, const CallContext& context) = 0;
  // Returns the namespaces with names after `after` that `shows` names, in
  // order of their names, at most `max_namespaces` of them, without their
  // workers.
  using Shows = absl::FunctionRef<bool(absl::string_view name)>;
  virtual absl::StatusOr<std::vector<NamespaceStatus>> ListNamespaces(
      absl::string_view after, size_t max_namespaces, Shows shows,
      const CallContext& context) = 0;
  virtual void Barrier(BarrierRequest request, CallContext context,
                       ReplyCallback<BarrierReply> done) = 0;

  // These take a callback as the verbs of TensorStore do.
#define TENSORKV_VERB(name, ...)                                \
  virtual void name(name##Request request, CallContext context, \
                    ReplyCallback<name##Reply> done) = 0;
  TENSORKV_ADMIN_METHODS(TENSORKV_VERB)
#undef TENSORKV_VERB
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_TENSOR_STORE_H_
