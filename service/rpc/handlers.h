// What each unary RPC does, without the transport that carries it.

#ifndef TENSORKV_SERVICE_RPC_HANDLERS_H_
#define TENSORKV_SERVICE_RPC_HANDLERS_H_

#include <functional>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "contract/requests.h"
#include "grpcpp/support/byte_buffer.h"
#include "service/rpc/message_limits.h"
#include "service/rpc/payload_decoder.h"
#include "service/store/staging.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Takes the encoded reply of a call, or its status. Called exactly once.
using Responder = absl::AnyInvocable<void(absl::StatusOr<grpc::ByteBuffer>) &&>;

// What the handlers work on; all of it outlives them.
struct HandlerDependencies {
  TensorStore* store = nullptr;
  NamespaceAdmin* namespaces = nullptr;
  Membership* membership = nullptr;
  Staging* staging = nullptr;
  std::function<ServerStatus()> describe_server;
};

// One handler per unary RPC: decode, ask the store, encode. Thread-safe.
//
// A handler gets the call's bytes, which it empties. What the RPCs mean, and
// their errors, is written in proto/tensorkv/v1/; besides those, every handler
// answers InvalidArgument for bytes that are no request, and
// ResourceExhausted for a request or a reply over the limits.
class Handlers {
 public:
  Handlers(HandlerDependencies dependencies, const MessageLimits& limits);

  // These may wait; they answer on the thread that ends the wait.
  void Init(grpc::ByteBuffer* bytes, CallContext context, Responder respond);
  void Push(grpc::ByteBuffer* bytes, CallContext context, Responder respond);
  void Pull(grpc::ByteBuffer* bytes, CallContext context, Responder respond);
  void PushPull(grpc::ByteBuffer* bytes, CallContext context,
                Responder respond);
  void Barrier(grpc::ByteBuffer* bytes, CallContext context, Responder respond);

  // These answer at once.
  using Answer = absl::StatusOr<grpc::ByteBuffer>;
  Answer Delete(grpc::ByteBuffer* bytes, const CallContext& context);
  Answer List(grpc::ByteBuffer* bytes, const CallContext& context);
  Answer Stat(grpc::ByteBuffer* bytes, const CallContext& context);
  Answer CreateNamespace(grpc::ByteBuffer* bytes, const CallContext& context);
  Answer DescribeNamespace(grpc::ByteBuffer* bytes, const CallContext& context);
  Answer ListNamespaces(grpc::ByteBuffer* bytes, const CallContext& context);
  Answer DeleteNamespace(grpc::ByteBuffer* bytes, const CallContext& context);
  Answer SetRule(grpc::ByteBuffer* bytes, const CallContext& context);
  Answer UnsetRule(grpc::ByteBuffer* bytes, const CallContext& context);
  Answer SetHyperparameters(grpc::ByteBuffer* bytes,
                            const CallContext& context);
  Answer Join(grpc::ByteBuffer* bytes, const CallContext& context);
  Answer KeepAlive(grpc::ByteBuffer* bytes, const CallContext& context);
  Answer Leave(grpc::ByteBuffer* bytes, const CallContext& context);
  Answer DescribeServer(grpc::ByteBuffer* bytes, const CallContext& context);

 private:
  TensorStore& store_;
  NamespaceAdmin& namespaces_;
  Membership& membership_;
  const std::function<ServerStatus()> describe_server_;
  const MessageLimits limits_;
  const PayloadDecoder decoder_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_HANDLERS_H_
