#include "client/cluster/placement_source.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/cluster/cluster_connection.h"
#include "client/internal/transfer/grpc_connection.h"
#include "contract/proto_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cluster/test_cluster.h"
#include "tests/contracts/caller.h"
#include "tests/testing/background.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::Background;
using testing::Caller;
using testing::Full;
using ::testing::HasSubstr;
using testing::StatusIs;
using testing::TestCluster;

// Servers that answer questions about their cluster as the test says.
class PlacementSourceTest : public ::testing::Test {
 protected:
  using Answer = std::function<absl::Status(DescribeClusterReply&)>;

  class Server final : public Connection {
   public:
    Server(PlacementSourceTest* test, std::string address)
        : test_(*test), address_(std::move(address)) {}
    absl::Status Attempt(const AnyCall& call, const CallOptions&) override {
      return call.Visit([&](const auto& request, auto& reply) -> absl::Status {
        if constexpr (std::is_same_v<std::decay_t<decltype(request)>,
                                     DescribeClusterRequest>) {
          ++test_.num_questions_;
          return test_.answer_(address_, reply);
        } else {
          return absl::UnimplementedError("expected a question");
        }
      });
    }

   private:
    PlacementSourceTest& test_;
    const std::string address_;
  };

  PlacementSource Source(std::vector<std::string> addresses) {
    return PlacementSource(
        std::move(addresses),
        [this](const std::string& address, std::shared_ptr<ServerIncarnation>)
            -> absl::StatusOr<std::unique_ptr<Connection>> {
          ++num_connections_;
          return std::make_unique<Server>(this, address);
        });
  }
  static void SetPlacement(uint64_t version, DescribeClusterReply& reply) {
    reply.set_server_name("a");
    ToProto({.version = version,
             .servers = {{.name = "a", .address = "a:1"}},
             .owners = {0}},
            reply.mutable_placement());
  }

  std::atomic<int> num_connections_ = 0;
  std::atomic<int> num_questions_ = 0;
  std::function<absl::Status(const std::string& address, DescribeClusterReply&)>
      answer_ = [](const std::string&, DescribeClusterReply& reply) {
        SetPlacement(1, reply);
        return absl::OkStatus();
      };
};

TEST_F(PlacementSourceTest, AsksOverOneConnectionToEachServer) {
  PlacementSource source = Source({"a:1", "b:1"});

  for (int i = 0; i < 10; ++i) {
    EXPECT_OK(source.Refresh(0, CallLimit(CallOptions())).Run());
    EXPECT_OK(source.Describe(CallLimit(CallOptions())).Run());
  }

  EXPECT_EQ(num_questions_, 20);
  EXPECT_EQ(num_connections_, 1);
}

TEST_F(PlacementSourceTest, PlacementThatMakesNoSenseIsAnError) {
  PlacementSource source = Source({"a:1"});
  answer_ = [](const std::string&, DescribeClusterReply& reply) {
    SetPlacement(1, reply);
    reply.mutable_placement()->add_owners(1);
    return absl::OkStatus();
  };

  EXPECT_THAT(
      source.Refresh(0, CallLimit(CallOptions())).Run(),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("owners: expected")));
}

// Each has to hear of what has happened before its call; a second question
// tells all of them.
TEST_F(PlacementSourceTest, ManyCallsShareAQuestion) {
  constexpr size_t kCalls = 20;
  PlacementSource source = Source({"a:1"});
  answer_ = [&](const std::string&, DescribeClusterReply& reply) {
    // The first one waits until all others have called.
    while (num_questions_ == 1 && source.num_waiting() < kCalls) {
      std::this_thread::yield();
    }
    SetPlacement(num_questions_, reply);
    return absl::OkStatus();
  };
  Background first(
      [&] { return source.Refresh(0, CallLimit(CallOptions())).Run(); });
  while (num_questions_ == 0) std::this_thread::yield();

  std::vector<std::thread> callers;
  for (size_t i = 0; i < kCalls; ++i) {
    callers.emplace_back([&] {
      const auto placement = source.Refresh(0, CallLimit(CallOptions())).Run();
      ASSERT_OK(placement);
      EXPECT_EQ((*placement)->version, 2u);
    });
  }
  for (std::thread& caller : callers) caller.join();

  EXPECT_OK(first.Result());
  EXPECT_EQ(num_questions_, 2);
}

TEST_F(PlacementSourceTest, CallThatIsCancelledWaitsForNoOtherOne) {
  PlacementSource source = Source({"a:1"});
  const auto canceller = std::make_shared<Canceller>();
  std::atomic<bool> ends = false;
  answer_ = [&](const std::string&, DescribeClusterReply& reply) {
    while (!ends) std::this_thread::yield();
    SetPlacement(1, reply);
    return absl::OkStatus();
  };
  Background first(
      [&] { return source.Refresh(0, CallLimit(CallOptions())).Run(); });
  while (num_questions_ == 0) std::this_thread::yield();
  Background second([&] {
    return source.Refresh(0, CallLimit({.canceller = canceller})).Run();
  });
  while (source.num_waiting() == 0) std::this_thread::yield();

  canceller->Cancel();

  EXPECT_THAT(second.Result(), StatusIs(absl::StatusCode::kCancelled));
  ends = true;
  EXPECT_OK(first.Result());
}

// One whose own time was short says nothing to others.
TEST_F(PlacementSourceTest, QuestionThatWasCutShortIsAskedAgain) {
  PlacementSource source = Source({"a:1"});
  answer_ = [&](const std::string&, DescribeClusterReply& reply) {
    if (num_questions_ == 1) {
      while (source.num_waiting() < 2) std::this_thread::yield();
    }
    if (num_questions_ <= 2) return absl::CancelledError("by its caller");
    SetPlacement(1, reply);
    return absl::OkStatus();
  };
  Background first(
      [&] { return source.Refresh(0, CallLimit(CallOptions())).Run(); });
  while (num_questions_ == 0) std::this_thread::yield();
  Background second([&] {
    return source.Refresh(0, CallLimit(CallOptions())).Run().status();
  });
  Background third([&] {
    return source.Refresh(0, CallLimit(CallOptions())).Run().status();
  });

  const std::vector<absl::Status> ends = {second.Result(), third.Result()};

  EXPECT_FALSE(first.Result().ok());
  EXPECT_EQ(std::ranges::count(ends, absl::OkStatus()), 1);
  EXPECT_EQ(num_questions_, 3);
}

// A client of a cluster of which one server is down.
TEST(PlacementQuestionsTest, CallsAtAServerThatIsDownMakeNoConnections) {
  TestCluster cluster(2);
  std::atomic<int> num_connections = 0;
  ClusterConnection connection(
      {.addresses = {cluster.address(0), cluster.address(1)},
       .connect = [&](const std::string& address,
                      std::shared_ptr<ServerIncarnation> known) {
         ++num_connections;
         return GrpcConnection::Create(
             {.target = address, .server = std::move(known)});
       }});
  const Caller store(connection, "");
  const std::string key = cluster.KeyOf(1);
  ASSERT_OK(store.Init(key, Full({1}, 1)));
  ASSERT_OK(store.Init(cluster.KeyOf(0), Full({1}, 1)));
  const int num_before = num_connections;
  cluster.Stop(1);

  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(store.WithTimeout(absl::Milliseconds(300)).Pull(key).ok());
  }

  // At most to ask each server over.
  EXPECT_LE(num_connections - num_before, 2);
}

}  // namespace
}  // namespace tensorkv
