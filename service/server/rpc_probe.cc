#include "service/server/rpc_probe.h"

#include <utility>

namespace tensorkv {

RpcProbe::RpcProbe(grpc::Server* server)
    : stub_(
          Health::NewStub(server->InProcessChannel(grpc::ChannelArguments()))) {
}

void RpcProbe::Stop() {
  MutexLock lock(&mutex_);
  is_stopped_ = true;
  if (context_ != nullptr) context_->TryCancel();
  while (num_calls_ > 0) ended_.Wait(&mutex_);
}

void RpcProbe::Start(absl::AnyInvocable<void() &&> done) {
  grpc::ClientContext* context = nullptr;
  {
    MutexLock lock(&mutex_);
    if (is_stopped_) return;
    context_ = std::make_unique<grpc::ClientContext>();
    context = context_.get();
    ++num_calls_;
    done_ = std::move(done);
  }
  stub_->async()->Check(context, &request_, &response_,
                        [this](const grpc::Status&) { End(); });
}

// Any answer will do: the server has come round to it.
void RpcProbe::End() {
  absl::AnyInvocable<void() &&> done;
  std::unique_ptr<grpc::ClientContext> context;
  {
    MutexLock lock(&mutex_);
    done = std::move(done_);
    context = std::move(context_);
  }
  context = nullptr;
  // The next call may start from here on.
  std::move(done)();
  MutexLock lock(&mutex_);
  --num_calls_;
  ended_.Signal();
}

}  // namespace tensorkv
