#include "service/rpc/tensorkv_service.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/impl/codegen/server_callback_handlers.h"
#include "service/rpc/unary_call.h"

namespace tensorkv {
namespace {

using grpc::internal::RpcServiceMethod;
using RawUnaryHandler =
    grpc::internal::CallbackUnaryHandler<grpc::ByteBuffer, grpc::ByteBuffer>;
using RawStreamHandler =
    grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>;

}  // namespace

TensorKvService::TensorKvService(Handlers* handlers,
                                 const StreamCall::Environment* streams,
                                 CallObserver* observer)
    : handlers_(*handlers),
      streams_(*streams),
      incarnation_(*streams->incarnation),
      observer_(*observer) {
  Add(Method::kInit, &Handlers::Init);
  Add(Method::kPush, &Handlers::Push);
  Add(Method::kPull, &Handlers::Pull);
  Add(Method::kPushPull, &Handlers::PushPull);
  AddStream(Method::kInitStream);
  AddStream(Method::kPushStream);
  AddStream(Method::kPullStream);
  AddStream(Method::kPushPullStream);
  Add(Method::kDelete, &Handlers::Delete);
  Add(Method::kList, &Handlers::List);
  Add(Method::kStat, &Handlers::Stat);
  Add(Method::kCreateNamespace, &Handlers::CreateNamespace);
  Add(Method::kDescribeNamespace, &Handlers::DescribeNamespace);
  Add(Method::kListNamespaces, &Handlers::ListNamespaces);
  Add(Method::kDeleteNamespace, &Handlers::DeleteNamespace);
  Add(Method::kSetRule, &Handlers::SetRule);
  Add(Method::kUnsetRule, &Handlers::UnsetRule);
  Add(Method::kSetHyperparameters, &Handlers::SetHyperparameters);
  Add(Method::kJoin, &Handlers::Join);
  Add(Method::kKeepAlive, &Handlers::KeepAlive);
  Add(Method::kLeave, &Handlers::Leave);
  Add(Method::kBarrier, &Handlers::Barrier);
  Add(Method::kDescribeServer, &Handlers::DescribeServer);
}

void TensorKvService::Add(Method method, Waiting handler) {
  AddHandler(method, std::bind_front(handler, &handlers_));
}

void TensorKvService::Add(Method method, Immediate handler) {
  AddHandler(method,
             [answer = std::bind_front(handler, &handlers_)](
                 grpc::ByteBuffer* request, CallContext, Responder respond) {
               std::move(respond)(answer(request));
             });
}

// What a generated raw callback service does in its constructor.
int TensorKvService::AddPath(Method method,
                             grpc::internal::RpcMethod::RpcType type) {
  paths_.push_back(absl::StrCat("/", kServiceName, "/", NameOf(method)));
  AddMethod(new RpcServiceMethod(paths_.back().c_str(), type, nullptr));
  return static_cast<int>(paths_.size()) - 1;
}

void TensorKvService::AddStream(Method method) {
  // The other kinds of streams look the same on the wire.
  const int index = AddPath(method, RpcServiceMethod::BIDI_STREAMING);
  MarkMethodRawCallback(
      index, new RawStreamHandler(
                 [this, method](grpc::CallbackServerContext* context) {
                   return StreamCall::Start(method, &streams_, context);
                 }));
}

void TensorKvService::AddHandler(Method method, Handler handler) {
  const int index = AddPath(method, RpcServiceMethod::NORMAL_RPC);
  MarkMethodRawCallback(
      index, new RawUnaryHandler([this, method, handler = std::move(handler)](
                                     grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* reply) {
        auto* call = new UnaryCall(method, request->Length(), *context, reply,
                                   &observer_);
        const absl::Status status = incarnation_.Greet(*context);
        if (!status.ok()) {
          call->responder()(status);
          return call;
        }
        // The handler empties the request, which frees the received bytes while
        // the call waits; gRPC has no further use for them.
        handler(const_cast<grpc::ByteBuffer*>(request), call->context(),
                call->responder());
        return call;
      }));
}

}  // namespace tensorkv
