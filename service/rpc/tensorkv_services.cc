#include "service/rpc/tensorkv_services.h"

#include "grpcpp/impl/codegen/server_callback_handlers.h"
#include "service/rpc/caller.h"
#include "service/rpc/unary_call.h"

namespace tensorkv {
namespace {

using grpc::internal::RpcServiceMethod;
using RawUnaryHandler =
    grpc::internal::CallbackUnaryHandler<grpc::ByteBuffer, grpc::ByteBuffer>;
using RawStreamHandler =
    grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>;

}  // namespace

TensorKvServices::TensorKvServices(const Handlers* handlers,
                                   const StreamCall::Environment* streams,
                                   uint32_t max_uploads, CallObserver* observer)
    : handlers_(*handlers),
      streams_(*streams),
      access_(streams->access),
      incarnation_(*streams->incarnation),
      observer_(*observer) {
  streams_.pool = &pools_.shared;
  if (max_uploads > 0) {
    streams_.session.uploads = &uploads_.emplace(max_uploads, &pools_.shared);
  }
  for (const Method method : kAllMethods) {
    if (KindOf(method) != MethodKind::kUnary) {
      AddStream(method);
    } else if (handlers_.of(method).run) {
      AddUnary(method);
    }
  }
}

void TensorKvServices::Register(grpc::ServerBuilder* builder) {
  for (RawService& service : services_) builder->RegisterService(&service);
}

// Does what a generated raw callback service does in its constructor.
void TensorKvServices::RawService::Add(Method method,
                                       grpc::internal::RpcMethod::RpcType type,
                                       grpc::internal::MethodHandler* handler) {
  AddMethod(new RpcServiceMethod(PathOf(method), type, nullptr));
  MarkMethodRawCallback(num_methods_++, handler);
}

void TensorKvServices::AddStream(Method method) {
  // The other kinds of streams look the same on the wire.
  services_[static_cast<size_t>(ServiceOf(method))].Add(
      method, RpcServiceMethod::BIDI_STREAMING,
      new RawStreamHandler(
          [this, method](grpc::CallbackServerContext* context) {
            return StreamCall::Start(method, &streams_, context);
          }));
}

void TensorKvServices::Handle(const Handler& handler, grpc::ByteBuffer* bytes,
                              UnaryCall* call,
                              const grpc::CallbackServerContext& context) {
  const Threads threads = handler.ThreadsFor(*bytes);
  if (threads == Threads::kGrpc) return call->Handle(handler, bytes);
  pools_.of(threads).Submit(
      TaskOwnerOf(call->caller(), context.peer()),
      [&handler, bytes, call] { call->Handle(handler, bytes); });
}

// The handler empties the request, which frees the received bytes while the
// call waits; gRPC has no further use for them.
void TensorKvServices::AddUnary(Method method) {
  services_[static_cast<size_t>(ServiceOf(method))].Add(
      method, RpcServiceMethod::NORMAL_RPC,
      new RawUnaryHandler([this, method, &handler = handlers_.of(method)](
                              grpc::CallbackServerContext* context,
                              const grpc::ByteBuffer* request,
                              grpc::ByteBuffer* reply) {
        auto* bytes = const_cast<grpc::ByteBuffer*>(request);
        auto* call =
            new UnaryCall(method, bytes->Length(), *context, reply, &observer_);
        // To handlers no message is an empty one.
        if (!bytes->Valid()) {
          call->RefuseEmpty();
          return call;
        }
        absl::Status status = AdmitCaller(access_, method, *context,
                                          streams_.slow_call, call->caller());
        if (status.ok()) status = call->TakeShare(access_);
        if (status.ok()) {
          status =
              incarnation_.CheckIncarnation(method, *context, call->caller());
        }
        if (!status.ok()) {
          call->Respond(status);
        } else {
          Handle(handler, bytes, call, *context);
        }
        return call;
      }));
}

}  // namespace tensorkv
