// The contract on three servers that are one store, by calls that wait on their
// threads and by calls that wait on none.

#include <memory>
#include <string>
#include <utility>

#include "tests/client/cluster/test_cluster.h"
#include "tests/client/starting_connection.h"
#include "tests/contracts/store_contract.h"

namespace tensorkv::testing {
namespace {

class ClusterStore : public StoreUnderTest {
 public:
  explicit ClusterStore(bool starts_calls) {
    if (!starts_calls) return;
    connection_ = std::make_unique<StartingConnection>(std::move(connection_));
  }

  Connection& connection() override { return *connection_; }
  bool is_cluster() const override { return true; }
  std::string device() const override { return TestDevice(); }

 private:
  const TestCluster cluster_{3};
  std::unique_ptr<Connection> connection_ = cluster_.Connect();
};

std::unique_ptr<StoreUnderTest> StartClusterStore() {
  return std::make_unique<ClusterStore>(/*starts_calls=*/false);
}
std::unique_ptr<StoreUnderTest> StartStartedClusterStore() {
  return std::make_unique<ClusterStore>(/*starts_calls=*/true);
}

INSTANTIATE_STORE_CONTRACTS(Cluster, StartClusterStore);
INSTANTIATE_STORE_CONTRACTS(StartedCluster, StartStartedClusterStore);

}  // namespace
}  // namespace tensorkv::testing
