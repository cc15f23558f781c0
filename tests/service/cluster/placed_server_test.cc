// A server whose placement is set by hand, over the wire.

#include <memory>
#include <string>

#include "contract/grpc_status.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "service/server/server.h"
#include "tensorkv/v1/service.grpc.pb.h"
#include "tests/service/cluster/two_servers.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using testing::HasReason;
using testing::KeyOfServer;
using testing::TwoServers;

v1::InitRequest InitOf(const std::string& key) {
  v1::InitRequest request;
  request.add_entries()->set_key(key);
  v1::Tensor& tensor = *request.mutable_entries(0)->mutable_tensor();
  tensor.set_dtype(v1::DTYPE_U8);
  tensor.add_shape(1);
  tensor.set_data("x");
  return request;
}

class PlacedServerTest : public ::testing::Test {
 protected:
  PlacedServerTest()
      : server_(Server::Create({.listen = "127.0.0.1:0",
                                .budget_bytes = 1 << 20,
                                .num_threads = 1})
                    .value()),
        stub_(v1::Data::NewStub(grpc::CreateChannel(
            server_->address(), grpc::InsecureChannelCredentials()))) {}

  absl::Status Init(const std::string& key) {
    grpc::ClientContext context;
    v1::InitResponse response;
    return FromGrpcStatus(stub_->Init(&context, InitOf(key), &response));
  }

  absl::Status InitByStream(const std::string& key) {
    grpc::ClientContext context;
    v1::InitResponse response;
    const auto stream = stub_->InitStream(&context, &response);
    v1::InitChunk request;
    *request.mutable_manifest()->mutable_init() = InitOf(key);
    request.mutable_manifest()
        ->mutable_init()
        ->mutable_entries(0)
        ->mutable_tensor()
        ->clear_data();
    stream->Write(request);
    return FromGrpcStatus(stream->Finish());
  }

  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::Data::Stub> stub_;
};

TEST_F(PlacedServerTest, WithoutPlacementItTakesEveryKey) {
  EXPECT_OK(Init(KeyOfServer("a")));
  EXPECT_OK(Init(KeyOfServer("b")));
}

TEST_F(PlacedServerTest, MessagesAndStreamsOfOtherServersAreRefused) {
  ASSERT_OK(server_->SetPlacement(TwoServers(7), "a"));

  EXPECT_OK(Init(KeyOfServer("a")));
  EXPECT_THAT(Init(KeyOfServer("b")), HasReason(Reason::kWrongServer));
  EXPECT_THAT(InitByStream(KeyOfServer("b")), HasReason(Reason::kWrongServer));
}

}  // namespace
}  // namespace tensorkv
