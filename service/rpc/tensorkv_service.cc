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

// What a call may bring to be handled on gRPC's threads: it is decoded in about
// 0.1 ms.
constexpr int64_t kMaxBytesInline = 1 << 20;
// For calls that are never handled there.
constexpr int64_t kNothingInline = -1;

// Responds with what `answer` returns.
template <typename Answer>
auto Answering(Answer answer) {
  return [answer](grpc::ByteBuffer* request, const CallContext& context,
                  Responder respond) {
    std::move(respond)(answer(request, context));
  };
}

}  // namespace

TensorKvService::TensorKvService(Handlers* handlers,
                                 const StreamCall::Environment* streams,
                                 CallObserver* observer)
    : handlers_(*handlers),
      streams_(*streams),
      incarnation_(*streams->incarnation),
      observer_(*observer) {
  streams_.pool = &pool_;
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
  AddQuick(Method::kKeepAlive, &Handlers::KeepAlive);
  Add(Method::kLeave, &Handlers::Leave);
  Add(Method::kBarrier, &Handlers::Barrier);
  AddQuick(Method::kDescribeServer, &Handlers::DescribeServer);
}

void TensorKvService::Add(Method method, Waiting handler) {
  AddHandler(method, kMaxBytesInline, std::bind_front(handler, &handlers_));
}

void TensorKvService::Add(Method method, Immediate handler) {
  AddHandler(method, kNothingInline,
             Answering(std::bind_front(handler, &handlers_)));
}

void TensorKvService::AddQuick(Method method, Immediate handler) {
  AddHandler(method, kMaxBytesInline,
             Answering(std::bind_front(handler, &handlers_)));
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

// The handler empties the request, which frees the received bytes while the
// call waits; gRPC has no further use for them.
void TensorKvService::AddHandler(Method method, int64_t max_bytes_inline,
                                 Handler handler) {
  const int index = AddPath(method, RpcServiceMethod::NORMAL_RPC);
  MarkMethodRawCallback(
      index, new RawUnaryHandler([this, method, max_bytes_inline,
                                  handler = std::move(handler)](
                                     grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* reply) {
        auto* bytes = const_cast<grpc::ByteBuffer*>(request);
        auto* call =
            new UnaryCall(method, bytes->Length(), *context, reply, &observer_);
        const absl::Status status = incarnation_.Greet(*context);
        if (!status.ok()) {
          call->responder()(status);
        } else if (static_cast<int64_t>(bytes->Length()) > max_bytes_inline) {
          pool_.Submit(context->peer(), [&handler, bytes, call] {
            if (!call->is_cancelled()) {
              return handler(bytes, call->context(), call->responder());
            }
            call->responder()(absl::CancelledError("the caller has given up"));
          });
        } else {
          handler(bytes, call->context(), call->responder());
        }
        return call;
      }));
}

}  // namespace tensorkv
