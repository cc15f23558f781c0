#include <utility>
#include <vector>

#include "bench/server_api/echo_servers.h"
#include "bench/server_api/sink.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/server_callback_handlers.h"
#include "grpcpp/impl/service_type.h"

namespace tensorkv {
namespace {

using grpc::ByteBuffer;
using grpc::internal::RpcServiceMethod;

class SinkReactor final
    : public grpc::ServerBidiReactor<ByteBuffer, ByteBuffer> {
 public:
  SinkReactor() { StartRead(&message_); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
      return;
    }
    sink_.Take(&message_);
    StartRead(&message_);
  }
  void OnDone() override { delete this; }

 private:
  ByteBuffer message_;
  ByteBuffer reply_ = EmptyMessage();
  Sink sink_;
};

class CallbackService final : public grpc::Service {
 public:
  CallbackService() {
    AddMethod(
        new RpcServiceMethod(kEchoPath, RpcServiceMethod::NORMAL_RPC, nullptr));
    MarkMethodRawCallback(
        0, new grpc::internal::CallbackUnaryHandler<ByteBuffer, ByteBuffer>(
               [](grpc::CallbackServerContext* context,
                  const ByteBuffer* request, ByteBuffer* reply) {
                 *reply = *request;
                 grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
                 reactor->Finish(grpc::Status::OK);
                 return reactor;
               }));
    AddMethod(new RpcServiceMethod(kSinkPath, RpcServiceMethod::BIDI_STREAMING,
                                   nullptr));
    MarkMethodRawCallback(
        1, new grpc::internal::CallbackBidiHandler<ByteBuffer, ByteBuffer>(
               [](grpc::CallbackServerContext*) { return new SinkReactor; }));
  }
};

class CallbackServer final : public EchoServer {
 public:
  CallbackServer() {
    grpc::ServerBuilder builder;
    ListenOnLoopback(&builder, &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }

  int port() const override { return port_; }

 private:
  int port_ = 0;
  CallbackService service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

std::unique_ptr<EchoServer> NewCallbackServer() {
  return std::make_unique<CallbackServer>();
}

}  // namespace tensorkv
