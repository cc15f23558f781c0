// The contract on a store in this process.

#include <memory>

#include "client/local/local_connection.h"
#include "tests/contracts/store_contract.h"

namespace tensorkv::testing {
namespace {

class LocalStore : public StoreUnderTest {
 public:
  Connection& connection() override { return connection_; }

 private:
  LocalConnection connection_;
};

std::unique_ptr<StoreUnderTest> StartLocalStore() {
  return std::make_unique<LocalStore>();
}

INSTANTIATE_STORE_CONTRACTS(Local, StartLocalStore);

}  // namespace
}  // namespace tensorkv::testing
