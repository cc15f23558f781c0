#include "bench/data_path/peers/naive_server.h"

#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::testing::MatchesRegex;

std::unique_ptr<NaiveStore::Stub> Connect(const NaiveServer& server) {
  return NaiveStore::NewStub(grpc::CreateChannel(
      server.address(), grpc::InsecureChannelCredentials()));
}

NaiveValues OneValue(const std::string& key, const std::string& data) {
  NaiveValues values;
  NaiveValue* value = values.add_values();
  value->set_key(key);
  value->set_data(data);
  return values;
}

TEST(NaiveServerTest, KeepsTheLastValueOfAKey) {
  ASSERT_OK_AND_ASSIGN(const auto server, NaiveServer::Start("127.0.0.1:0"));
  const auto stub = Connect(*server);
  grpc::ClientContext push, pushpull;
  NaiveReply reply;
  NaiveValues values;

  EXPECT_TRUE(stub->Push(&push, OneValue("k", "old"), &reply).ok());
  EXPECT_TRUE(stub->PushPull(&pushpull, OneValue("k", "new"), &values).ok());

  ASSERT_EQ(values.values_size(), 1);
  EXPECT_EQ(values.values(0).key(), "k");
  EXPECT_EQ(values.values(0).data(), "new");
}

TEST(NaiveServerTest, Echoes) {
  ASSERT_OK_AND_ASSIGN(const auto server, NaiveServer::Start("127.0.0.1:0"));
  grpc::ClientContext context;
  NaiveEcho message, reply;
  message.set_data("hello");

  EXPECT_TRUE(Connect(*server)->Echo(&context, message, &reply).ok());

  EXPECT_EQ(reply.data(), "hello");
  EXPECT_THAT(server->address(), MatchesRegex("127.0.0.1:[1-9][0-9]*"));
}

TEST(NaiveServerTest, ListensOnAUnixSocket) {
  const std::string path =
      absl::StrCat("/tmp/tensorkv_naive_server_test.", getpid());
  ASSERT_OK_AND_ASSIGN(const auto server,
                       NaiveServer::Start(absl::StrCat("unix:", path)));
  grpc::ClientContext context;
  NaiveEcho message, reply;

  EXPECT_EQ(server->address(), absl::StrCat("unix:", path));
  EXPECT_TRUE(Connect(*server)->Echo(&context, message, &reply).ok());

  unlink(path.c_str());
}

}  // namespace
}  // namespace tensorkv::bench
