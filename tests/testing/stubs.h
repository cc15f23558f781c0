// The generated stubs of all services, as one.

#ifndef TENSORKV_TESTS_TESTING_STUBS_H_
#define TENSORKV_TESTS_TESTING_STUBS_H_

#include <memory>
#include <tuple>

#include "contract/method.h"
#include "grpcpp/grpcpp.h"
#include "tensorkv/v1/peer.grpc.pb.h"
#include "tensorkv/v1/service.grpc.pb.h"

namespace tensorkv::testing {

// Makes each call by the stub of its service. Thread-safe.
class Stubs {
 public:
  explicit Stubs(const std::shared_ptr<grpc::Channel>& channel)
      : stubs_(v1::Data::NewStub(channel), v1::Namespaces::NewStub(channel),
               v1::Membership::NewStub(channel), v1::Admin::NewStub(channel),
               v1::Snapshots::NewStub(channel), v1::Peer::NewStub(channel)) {}

#define TENSORKV_CALL(name, service, ...)                              \
  grpc::Status name(grpc::ClientContext* context,                      \
                    const v1::name##Request& request,                  \
                    v1::name##Response* response) {                    \
    return std::get<std::unique_ptr<v1::service::Stub>>(stubs_)->name( \
        context, request, response);                                   \
  }
  TENSORKV_UNARY_METHODS(TENSORKV_CALL)
  TENSORKV_PEER_METHODS(TENSORKV_CALL)
#undef TENSORKV_CALL

  auto InitStream(grpc::ClientContext* context, v1::InitResponse* response) {
    return data().InitStream(context, response);
  }
  auto PushStream(grpc::ClientContext* context, v1::PushResponse* response) {
    return data().PushStream(context, response);
  }
  auto PullStream(grpc::ClientContext* context,
                  const v1::PullStreamRequest& request) {
    return data().PullStream(context, request);
  }

 private:
  v1::Data::Stub& data() {
    return *std::get<std::unique_ptr<v1::Data::Stub>>(stubs_);
  }

  std::tuple<
      std::unique_ptr<v1::Data::Stub>, std::unique_ptr<v1::Namespaces::Stub>,
      std::unique_ptr<v1::Membership::Stub>, std::unique_ptr<v1::Admin::Stub>,
      std::unique_ptr<v1::Snapshots::Stub>, std::unique_ptr<v1::Peer::Stub>>
      stubs_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_STUBS_H_
