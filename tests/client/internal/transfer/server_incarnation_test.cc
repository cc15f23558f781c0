#include "client/internal/transfer/server_incarnation.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/internal/transfer/grpc_channel.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "tensorkv/v1/service.grpc.pb.h"

namespace tensorkv {
namespace {

constexpr char kKey[] = "tensorkv-incarnation";

// Names the incarnation that the test says, and records what calls expect.
class NamingService final : public v1::Data::Service {
 public:
  grpc::Status Push(grpc::ServerContext* context, const v1::PushRequest*,
                    v1::PushResponse*) override {
    const auto& metadata = context->client_metadata();
    const auto found = metadata.find(kKey);
    expected = found == metadata.end()
                   ? ""
                   : std::string(found->second.data(), found->second.size());
    if (!incarnation.empty()) context->AddInitialMetadata(kKey, incarnation);
    return grpc::Status::OK;
  }

  std::string incarnation;
  std::string expected;
};

class ServerIncarnationTest : public ::testing::Test {
 protected:
  ServerIncarnationTest() {
    int port = 0;
    server_ = grpc::ServerBuilder()
                  .AddListeningPort("127.0.0.1:0",
                                    grpc::InsecureServerCredentials(), &port)
                  .RegisterService(&service_)
                  .BuildAndStart();
    stub_ = v1::Data::NewStub(
        OpenChannel(absl::StrCat("127.0.0.1:", port), 1 << 20));
  }
  ~ServerIncarnationTest() override { server_->Shutdown(); }

  // What the call has told the server to be.
  std::string Call() {
    grpc::ClientContext context;
    v1::PushResponse response;
    known_.ApplyTo(context);
    EXPECT_TRUE(stub_->Push(&context, {}, &response).ok());
    known_.LearnFrom(context);
    return service_.expected;
  }

  NamingService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Data::Stub> stub_;
  ServerIncarnation known_;
};

TEST_F(ServerIncarnationTest, FirstCallExpectsNothing) {
  EXPECT_EQ(Call(), "");
}

TEST_F(ServerIncarnationTest, CallsExpectWhatTheFirstReplyNamed) {
  service_.incarnation = "00000000000000ab";
  Call();

  EXPECT_EQ(Call(), "00000000000000ab");
  EXPECT_EQ(known_.incarnation(), 0xabu);
}

TEST_F(ServerIncarnationTest, LaterRepliesChangeNothing) {
  service_.incarnation = "00000000000000ab";
  Call();
  service_.incarnation = "00000000000000cd";
  Call();

  EXPECT_EQ(Call(), "00000000000000ab");
}

TEST_F(ServerIncarnationTest, CallThatTakesAnyIncarnationMakesItTheKnownOne) {
  service_.incarnation = "00000000000000ab";
  Call();
  service_.incarnation = "00000000000000cd";
  grpc::ClientContext context;
  v1::PushResponse response;
  ASSERT_TRUE(stub_->Push(&context, {}, &response).ok());

  known_.ReplaceFrom(context);

  EXPECT_EQ(Call(), "00000000000000cd");
}

TEST_F(ServerIncarnationTest, ServerThatNamesNoneOrNonsenseIsNotKnown) {
  Call();
  service_.incarnation = "nonsense";
  Call();

  EXPECT_EQ(known_.incarnation(), 0u);
}

}  // namespace
}  // namespace tensorkv
