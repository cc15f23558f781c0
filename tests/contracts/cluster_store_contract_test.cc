// The contract on three servers that are one store.

#include <memory>

#include "tests/client/cluster/test_cluster.h"
#include "tests/contracts/store_contract.h"

namespace tensorkv::testing {
namespace {

class ClusterStore : public StoreUnderTest {
 public:
  Connection& connection() override { return *connection_; }
  bool is_cluster() const override { return true; }
  std::string device() const override { return TestDevice(); }

 private:
  const TestCluster cluster_{3};
  const std::unique_ptr<Connection> connection_ = cluster_.Connect();
};

std::unique_ptr<StoreUnderTest> StartClusterStore() {
  return std::make_unique<ClusterStore>();
}

INSTANTIATE_STORE_CONTRACTS(Cluster, StartClusterStore);

}  // namespace
}  // namespace tensorkv::testing
