// The contract on a live server that keeps its tensors on a fake GPU, whose
// streams run in random order.

#include <memory>
#include <string>

#include "client/internal/transfer/grpc_connection.h"
#include "kernels/cuda/cuda_backend.h"
#include "service/server/server.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/fake_gpu.h"

namespace tensorkv::testing {
namespace {

constexpr uint64_t kMemoryBytes = uint64_t{1} << 30;

class GpuStore : public StoreUnderTest {
 public:
  GpuStore()
      : server_(Server::Create(
                    {.listen = "127.0.0.1:0", .budget_bytes = kMemoryBytes},
                    Open(gpu_))
                    .value()),
        connection_(
            GrpcConnection::Create({.target = server_->address()}).value()) {}

  Connection& connection() override { return *connection_; }
  std::string device() const override { return "fake:0"; }

 private:
  static OpenedDevice Open(FakeGpu& gpu) {
    return {.backend = *CudaBackend::Create(gpu.Open(),
                                            {.quota_bytes = 2 * kMemoryBytes}),
            .memory_bytes = kMemoryBytes};
  }

  FakeGpu gpu_{{.memory_bytes = 2 * kMemoryBytes, .shuffle_seed = 1}};
  const std::unique_ptr<Server> server_;
  const std::unique_ptr<Connection> connection_;
};

std::unique_ptr<StoreUnderTest> StartGpuStore() {
  return std::make_unique<GpuStore>();
}

INSTANTIATE_STORE_CONTRACTS(Gpu, StartGpuStore);

}  // namespace
}  // namespace tensorkv::testing
