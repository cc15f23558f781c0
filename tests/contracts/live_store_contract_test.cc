// The contract on a live server, reached by gRPC: with calls of one message,
// and with every call that carries tensors as two striped streams.

#include <memory>
#include <string>

#include "client/internal/transfer/grpc_connection.h"
#include "service/server/server.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/test_device.h"

namespace tensorkv::testing {
namespace {

class LiveStore : public StoreUnderTest {
 public:
  explicit LiveStore(const TransferOptions& transfer)
      : server_(Server::Create({.listen = "127.0.0.1:0",
                                .device = TestDeviceChoice(),
                                .budget_bytes = 1 << 30,
                                .num_threads = 2})
                    .value()),
        connection_(GrpcConnection::Create(
                        {.target = server_->address(), .transfer = transfer})
                        .value()) {}

  Connection& connection() override { return *connection_; }
  std::string device() const override { return TestDevice(); }

 private:
  const std::unique_ptr<Server> server_;
  const std::unique_ptr<Connection> connection_;
};

std::unique_ptr<StoreUnderTest> StartLiveStore() {
  return std::make_unique<LiveStore>(TransferOptions());
}

std::unique_ptr<StoreUnderTest> StartStreamedStore() {
  return std::make_unique<LiveStore>(
      TransferOptions{.stream_threshold_bytes = 1,
                      .part_bytes = 1000,
                      .min_stripe_bytes = 64,
                      .bulk_connections = 2});
}

INSTANTIATE_STORE_CONTRACTS(Live, StartLiveStore);
INSTANTIATE_STORE_CONTRACTS(Streamed, StartStreamedStore);

}  // namespace
}  // namespace tensorkv::testing
