#include "tests/service/server/reflection_call.h"

#include "base/mutex.h"
#include "contract/grpc_status.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace tensorkv::testing {
namespace {

constexpr char kMethod[] =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
// ServerReflectionRequest { list_services: "*" }: Debian has no file of it.
constexpr char kListServices[] = "\x3A\x01*";

// One request, one answer.
class ReflectionCall final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit ReflectionCall(std::shared_ptr<grpc::Channel> channel)
      : stub_(std::move(channel)), request_([] {
          const grpc::Slice slice(kListServices);
          return grpc::ByteBuffer(&slice, 1);
        }()) {
    stub_.PrepareBidiStreamingCall(&context_, kMethod, grpc::StubOptions(),
                                   this);
    StartWriteLast(&request_, grpc::WriteOptions());
    StartRead(&answer_);
    StartCall();
  }

  absl::StatusOr<std::string> Result() {
    done_.WaitForNotification();
    if (!status_.ok()) return FromGrpcStatus(status_);
    grpc::Slice slice;
    if (!answer_.DumpToSingleSlice(&slice).ok()) return std::string();
    return std::string(slice.begin(), slice.end());
  }

  void OnDone(const grpc::Status& status) override {
    status_ = status;
    done_.Notify();
  }

 private:
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer answer_;
  grpc::Status status_;
  Notification done_;
};

}  // namespace

absl::StatusOr<std::string> ListedServices(
    std::shared_ptr<grpc::Channel> channel) {
  return ReflectionCall(std::move(channel)).Result();
}

}  // namespace tensorkv::testing
