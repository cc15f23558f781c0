#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/server_api/echo_servers.h"
#include "bench/server_api/sink.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/rpc_service_method.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/support/async_stream.h"
#include "grpcpp/support/async_unary_call.h"

namespace tensorkv {
namespace {

using grpc::ByteBuffer;
using grpc::internal::RpcServiceMethod;

// As many calls may arrive before one of them is answered.
constexpr int kPostedCalls = 128;

// One call, which gets the events of its queue one after another. Deletes
// itself at the end.
class QueueCall {
 public:
  virtual ~QueueCall() = default;
  virtual void Proceed(bool ok) = 0;
};

void Poll(grpc::CompletionQueue* queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) static_cast<QueueCall*>(tag)->Proceed(ok);
}

class QueueService final : public grpc::Service {
 public:
  QueueService() {
    AddMethod(
        new RpcServiceMethod(kEchoPath, RpcServiceMethod::NORMAL_RPC, nullptr));
    MarkMethodRaw(0);
    AddMethod(new RpcServiceMethod(kSinkPath, RpcServiceMethod::BIDI_STREAMING,
                                   nullptr));
    MarkMethodRaw(1);
  }

  void RequestEcho(grpc::ServerContext* context, ByteBuffer* request,
                   grpc::ServerAsyncResponseWriter<ByteBuffer>* writer,
                   grpc::ServerCompletionQueue* queue, void* tag) {
    RequestAsyncUnary(0, context, request, writer, queue, queue, tag);
  }
  void RequestSink(
      grpc::ServerContext* context,
      grpc::ServerAsyncReaderWriter<ByteBuffer, ByteBuffer>* stream,
      grpc::ServerCompletionQueue* queue, void* tag) {
    RequestAsyncBidiStreaming(1, context, stream, queue, queue, tag);
  }
};

class EchoCall final : public QueueCall {
 public:
  EchoCall(QueueService* service, grpc::ServerCompletionQueue* queue)
      : service_(*service), queue_(*queue) {
    service_.RequestEcho(&context_, &message_, &writer_, &queue_, this);
  }

  void Proceed(bool ok) override {
    if (!ok || is_answered_) {
      delete this;
      return;
    }
    new EchoCall(&service_, &queue_);
    is_answered_ = true;
    writer_.Finish(message_, grpc::Status::OK, this);
  }

 private:
  QueueService& service_;
  grpc::ServerCompletionQueue& queue_;
  grpc::ServerContext context_;
  ByteBuffer message_;
  grpc::ServerAsyncResponseWriter<ByteBuffer> writer_{&context_};
  bool is_answered_ = false;
};

// A stream that is read to its end and answered with one message: Sink, and
// with the generic service also Echo.
template <typename Context>
class StreamCall : public QueueCall {
 public:
  void Proceed(bool ok) override {
    if (state_ == State::kRequested) {
      if (!ok) return End();
      PostNext();
      is_echo_ = IsEcho();
      state_ = State::kReading;
      stream_.Read(&message_, this);
    } else if (state_ == State::kReading && ok && !is_echo_) {
      sink_.Take(&message_);
      stream_.Read(&message_, this);
    } else if (state_ == State::kReading) {
      state_ = State::kFinishing;
      stream_.WriteAndFinish(is_echo_ ? message_ : EmptyMessage(),
                             grpc::WriteOptions(), grpc::Status::OK, this);
    } else {
      End();
    }
  }

 protected:
  virtual void PostNext() = 0;
  virtual bool IsEcho() const = 0;

  Context context_;
  grpc::ServerAsyncReaderWriter<ByteBuffer, ByteBuffer> stream_{&context_};

 private:
  enum class State { kRequested, kReading, kFinishing };

  void End() { delete this; }

  ByteBuffer message_;
  Sink sink_;
  State state_ = State::kRequested;
  bool is_echo_ = false;
};

class SinkCall final : public StreamCall<grpc::ServerContext> {
 public:
  SinkCall(QueueService* service, grpc::ServerCompletionQueue* queue)
      : service_(*service), queue_(*queue) {
    service_.RequestSink(&context_, &stream_, &queue_, this);
  }

 private:
  void PostNext() override { new SinkCall(&service_, &queue_); }
  bool IsEcho() const override { return false; }

  QueueService& service_;
  grpc::ServerCompletionQueue& queue_;
};

class GenericCall final : public StreamCall<grpc::GenericServerContext> {
 public:
  GenericCall(grpc::AsyncGenericService* service,
              grpc::ServerCompletionQueue* queue)
      : service_(*service), queue_(*queue) {
    service_.RequestCall(&context_, &stream_, &queue_, &queue_, this);
  }

 private:
  void PostNext() override { new GenericCall(&service_, &queue_); }
  bool IsEcho() const override { return context_.method() == kEchoPath; }

  grpc::AsyncGenericService& service_;
  grpc::ServerCompletionQueue& queue_;
};

class QueueServer final : public EchoServer {
 public:
  QueueServer(bool is_generic, int num_threads) {
    grpc::ServerBuilder builder;
    ListenOnLoopback(&builder, &port_);
    if (is_generic) {
      builder.RegisterAsyncGenericService(&generic_);
    } else {
      builder.RegisterService(&service_);
    }
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    for (int i = 0; i < kPostedCalls; ++i) Post(is_generic);
    for (int i = 0; i < num_threads; ++i) {
      threads_.emplace_back(Poll, queue_.get());
    }
  }
  ~QueueServer() override {
    server_->Shutdown();
    queue_->Shutdown();
    for (std::thread& thread : threads_) thread.join();
  }

  int port() const override { return port_; }

 private:
  void Post(bool is_generic) {
    if (is_generic) {
      new GenericCall(&generic_, queue_.get());
    } else {
      new EchoCall(&service_, queue_.get());
      new SinkCall(&service_, queue_.get());
    }
  }

  int port_ = 0;
  QueueService service_;
  grpc::AsyncGenericService generic_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<EchoServer> NewQueueServer(int num_threads) {
  return std::make_unique<QueueServer>(/*is_generic=*/false, num_threads);
}

std::unique_ptr<EchoServer> NewGenericQueueServer(int num_threads) {
  return std::make_unique<QueueServer>(/*is_generic=*/true, num_threads);
}

}  // namespace tensorkv
