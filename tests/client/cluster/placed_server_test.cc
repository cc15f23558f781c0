#include "client/cluster/placed_server.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "client/cluster/cluster_connection.h"
#include "client/internal/transfer/grpc_connection.h"
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
using testing::TestCluster;

TEST(PlacedServerTest, NoCallWaitsForTheConnectionOfAnother) {
  const TestCluster cluster(2);
  std::atomic<int> num_connections = 0;
  Notification is_connecting, may_go_on;
  ClusterConnection connection(
      {.addresses = {cluster.address(0)},
       .connect = [&](const std::string& address,
                      std::shared_ptr<ServerIncarnation> known) {
         if (address == cluster.address(1) && num_connections++ == 0) {
           is_connecting.Notify();
           may_go_on.WaitForNotification();
         }
         return GrpcConnection::Create(
             {.target = address, .server = std::move(known)});
       }});
  const Caller store(connection, "");
  Background slow([&] { return store.Init(cluster.KeyOf(1), Full({1}, 1)); });
  is_connecting.WaitForNotification();

  EXPECT_OK(store.Init(cluster.KeyOf(1, "", /*number=*/1), Full({1}, 1)));

  may_go_on.Notify();
  EXPECT_OK(slow.Result());
  EXPECT_EQ(num_connections, 2);
}

}  // namespace
}  // namespace tensorkv
