// Does what each unary RPC does, without the transport that carries it.

#ifndef TENSORKV_SERVICE_RPC_HANDLERS_H_
#define TENSORKV_SERVICE_RPC_HANDLERS_H_

#include <array>
#include <cstdint>
#include <functional>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/any_call.h"
#include "contract/method.h"
#include "contract/requests.h"
#include "grpcpp/support/byte_buffer.h"
#include "service/rpc/incarnation.h"
#include "service/rpc/message_limits.h"
#include "service/rpc/payload_decoder.h"
#include "service/store/staging.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Takes the encoded reply of a call, or its status. Called exactly once.
using Responder = absl::AnyInvocable<void(absl::StatusOr<grpc::ByteBuffer>) &&>;

// HandlerDependencies holds what the handlers work on; all of it outlives them.
struct HandlerDependencies {
  TensorStore* store = nullptr;
  NamespaceAdmin* namespaces = nullptr;
  Staging* staging = nullptr;
  const Incarnation* incarnation = nullptr;
  // Makes a call of TENSORKV_CHECKPOINT_METHODS or TENSORKV_SERVER_METHODS.
  std::function<absl::Status(const AnyCall& call, const CallContext& context)>
      ask_server;
};

// The threads that handle a call. Whatever may wait for long, or compute for
// long, has some of its own, so that it holds up no more than its like.
enum class Threads : uint8_t {
  kGrpc,     // gRPC's own: few entries, and not too many bytes
  kShared,   // all else that is soon done
  kLong,     // verbs that wait for another of their kind, or read whole values
  kDisk,     // those that wait for a disk
  kCluster,  // those that wait for other servers
};

// Handler says what a unary call does: decode, ask the store, encode.
struct Handler {
  Threads ThreadsFor(const grpc::ByteBuffer& bytes) const;
  // Returns whether a call that has come to kShared is for kLong. Not for
  // gRPC's threads, as it looks at all fields.
  bool TakesLong(const grpc::ByteBuffer& bytes) const;

  // -1: no request is for gRPC's threads.
  int64_t max_bytes_inline = -1;
  // Where those run that are not.
  Threads threads = Threads::kShared;
  // The field that says that a call takes long; 0: there is none.
  int long_if_set = 0;
  // Gets the call's bytes, which it empties. Thread-safe.
  std::function<void(grpc::ByteBuffer*, CallContext, Responder)> run;
};

// One handler per unary method. Thread-safe.
//
// What the RPCs mean, and their errors, is written in proto/tensorkv/v1/;
// besides those, every handler answers InvalidArgument for bytes that are no
// request, and ResourceExhausted for a request or a reply over the limits.
class Handlers {
 public:
  Handlers(HandlerDependencies dependencies, const MessageLimits& limits);
  Handlers(const Handlers&) = delete;
  Handlers& operator=(const Handlers&) = delete;

  // REQUIRES: a unary method.
  const Handler& of(Method method) const {
    return handlers_[static_cast<size_t>(method)];
  }

 private:
  using Answer = absl::StatusOr<grpc::ByteBuffer>;
  using Waiting = void (Handlers::*)(grpc::ByteBuffer*, CallContext, Responder);

  void AddDataHandlers();
  void AddNamespaceHandlers();
  void AddMembershipHandlers();
  // Says which verbs may take long.
  void ChooseThreads();
  // For a method that may wait; it answers on the thread that ends the wait.
  void Add(Method method, Waiting handler);
  // For a method that is answered at once: by `answer(bytes, context)`, by
  // `ask(request, context)`, which returns a Status or the reply, and by a verb
  // of `store`.
  template <typename Function>
  void AddAnswer(Method method, int64_t max_bytes_inline, Function answer);
  template <typename Request, typename Function>
  void AddAsk(Function ask, int64_t max_bytes_inline = -1);
  template <typename Store, typename Reply, typename Request>
  void AddVerb(Store& store, Reply (Store::*verb)(Request, const CallContext&),
               int64_t max_bytes_inline = -1);

  void Init(grpc::ByteBuffer* bytes, CallContext context, Responder respond);
  void Push(grpc::ByteBuffer* bytes, CallContext context, Responder respond);
  void Pull(grpc::ByteBuffer* bytes, CallContext context, Responder respond);
  void PushRows(grpc::ByteBuffer* bytes, CallContext context,
                Responder respond);
  void PullRows(grpc::ByteBuffer* bytes, CallContext context,
                Responder respond);
  void PushPull(grpc::ByteBuffer* bytes, CallContext context,
                Responder respond);
  void Barrier(grpc::ByteBuffer* bytes, CallContext context, Responder respond);
  void AnswerPush(absl::StatusOr<PushRequest> request, CallContext context,
                  Responder respond);
  void AnswerPull(absl::StatusOr<PullRequest> request, CallContext context,
                  Responder respond);
  Answer List(grpc::ByteBuffer* bytes, const CallContext& context);
  Answer ListNamespaces(grpc::ByteBuffer* bytes, const CallContext& context);
  absl::StatusOr<JoinReply> Join(const JoinRequest& request,
                                 const CallContext& context);

  TensorStore& store_;
  NamespaceAdmin& namespaces_;
  const Incarnation& incarnation_;
  const MessageLimits limits_;
  const PayloadDecoder decoder_;
  std::array<Handler, kNumMethods> handlers_;  // const once built
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_HANDLERS_H_
