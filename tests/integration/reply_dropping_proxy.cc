#include "tests/integration/reply_dropping_proxy.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/incarnation_metadata.h"

namespace tensorkv::testing {

// One call on its way. Deletes itself when gRPC is done with it.
class ReplyDroppingProxy::Call final : public grpc::ServerGenericBidiReactor {
 public:
  Call(ReplyDroppingProxy& proxy, grpc::GenericCallbackServerContext& context)
      : proxy_(proxy), context_(context) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    onward_.set_deadline(context_.deadline());
    const auto& metadata = context_.client_metadata();
    const auto incarnation = metadata.find(kIncarnationMetadata);
    if (incarnation != metadata.end()) {
      onward_.AddMetadata(kIncarnationMetadata, {incarnation->second.data(),
                                                 incarnation->second.size()});
    }
    proxy_.stub_.UnaryCall(
        &onward_, context_.method(), grpc::StubOptions(), &request_, &reply_,
        [this](grpc::Status status) { Answer(std::move(status)); });
  }

  void OnDone() override { delete this; }

 private:
  void Answer(const grpc::Status& status) {
    if (proxy_.DropsReply()) {
      return Finish({grpc::StatusCode::UNAVAILABLE, "the reply was lost"});
    }
    if (!status.ok()) return Finish(status);
    const auto& metadata = onward_.GetServerInitialMetadata();
    const auto incarnation = metadata.find(kIncarnationMetadata);
    if (incarnation != metadata.end()) {
      context_.AddInitialMetadata(
          kIncarnationMetadata,
          {incarnation->second.data(), incarnation->second.size()});
    }
    StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
  }

  ReplyDroppingProxy& proxy_;
  grpc::GenericCallbackServerContext& context_;
  grpc::ClientContext onward_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
};

ReplyDroppingProxy::ReplyDroppingProxy(const std::string& target,
                                       double drop_probability, uint64_t seed)
    : stub_(grpc::CreateChannel(target, grpc::InsecureChannelCredentials())),
      drop_probability_(drop_probability),
      random_(seed) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterCallbackGenericService(this);
  server_ = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
}

ReplyDroppingProxy::~ReplyDroppingProxy() { server_->Shutdown(); }

grpc::ServerGenericBidiReactor* ReplyDroppingProxy::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  return new Call(*this, *context);
}

bool ReplyDroppingProxy::DropsReply() {
  MutexLock lock(&mutex_);
  const bool drops = std::bernoulli_distribution(drop_probability_)(random_);
  num_dropped_ += drops ? 1 : 0;
  return drops;
}

int ReplyDroppingProxy::num_dropped() {
  MutexLock lock(&mutex_);
  return num_dropped_;
}

}  // namespace tensorkv::testing
