#include "service/server/rpc_probe.h"

#include <utility>

namespace tensorkv {

RpcProbe::RpcProbe(grpc::Server* server)
    : stub_(
          Health::NewStub(server->InProcessChannel(grpc::ChannelArguments()))) {
}

RpcProbe::~RpcProbe() {
  MutexLock lock(&mutex_);
  if (context_ != nullptr) context_->TryCancel();
  while (context_ != nullptr) ended_.Wait(&mutex_);
}

void RpcProbe::Start(absl::AnyInvocable<void() &&> done) {
  grpc::ClientContext* context = nullptr;
  {
    MutexLock lock(&mutex_);
    context_ = std::make_unique<grpc::ClientContext>();
    context = context_.get();
    done_ = std::move(done);
  }
  stub_->async()->Check(context, &request_, &response_,
                        [this](const grpc::Status&) { End(); });
}

// Any answer will do: the server has come round to it.
void RpcProbe::End() {
  absl::AnyInvocable<void() &&> done;
  {
    MutexLock lock(&mutex_);
    done = std::move(done_);
  }
  std::move(done)();
  MutexLock lock(&mutex_);
  context_ = nullptr;
  ended_.Signal();
}

}  // namespace tensorkv
