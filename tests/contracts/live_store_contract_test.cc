// The contract on a live server, reached by gRPC.

#include <memory>
#include <utility>

#include "client/grpc_connection.h"
#include "service/server/server.h"
#include "tests/contracts/store_contract.h"

namespace tensorkv::testing {
namespace {

class LiveStore : public StoreUnderTest {
 public:
  LiveStore()
      : server_(Server::Create({.listen = "127.0.0.1:0",
                                .budget_bytes = 1 << 30,
                                .num_threads = 2})
                    .value()),
        connection_(
            GrpcConnection::Create({.target = server_->address()}).value()) {}

  Connection& connection() override { return *connection_; }

 private:
  const std::unique_ptr<Server> server_;
  const std::unique_ptr<Connection> connection_;
};

std::unique_ptr<StoreUnderTest> StartLiveStore() {
  return std::make_unique<LiveStore>();
}

INSTANTIATE_STORE_CONTRACTS(Live, StartLiveStore);

}  // namespace
}  // namespace tensorkv::testing
