#include "bench/gpu/server_suite.h"

#include <memory>
#include <utility>

#include "bench/data_path/peers/tensorkv_peer.h"
#include "gmock/gmock.h"
#include "service/server/server.h"
#include "tests/bench/gpu/gpu_suite.h"

namespace tensorkv::bench::gpu {
namespace {

using ::tensorkv::testing::Comparisons;
using ::tensorkv::testing::FakeGpu;
using ::testing::ElementsAre;

const ServerOptions kServerOptions = {
    .listen = "127.0.0.1:0", .metrics_listen = "", .budget_bytes = 256 << 20};

OpenedDevices Open(FakeGpu* gpu) {
  OpenedDevices opened;
  opened.devices.push_back(
      {.backend =
           CudaBackend::Create(gpu->Open(), {.quota_bytes = 512 << 20}).value(),
       .memory_bytes = 512 << 20});
  return opened;
}

class ServerSuiteTest : public testing::GpuSuiteTest {
 protected:
  static Peer PeerOf(const Server& server) {
    return TensorkvPeer(Client::Connect({.target = server.address()}).value(),
                        /*server=*/0);
  }

  FakeGpu server_gpu_;
  const std::unique_ptr<Server> on_gpu_ =
      Server::Create(kServerOptions, Open(&server_gpu_)).value();
  const std::unique_ptr<Server> on_cpu_ =
      Server::Create(kServerOptions).value();
};

TEST_F(ServerSuiteTest, EveryCallIsBesideThatOfTheServerOnTheCpu) {
  RowRunner runner = Runner();

  const Section section =
      MeasureServers(PeerOf(*on_gpu_), PeerOf(*on_cpu_), sizes_, &runner);

  ExpectComplete(section);
  EXPECT_GT(server_gpu_.num_copies(), 0);
  EXPECT_THAT(Comparisons(section),
              ElementsAre("server/push/4KiB@1 by server on the CPU",
                          "server/push/4KiB@2 by server on the CPU",
                          "server/pull/4KiB@1 by server on the CPU",
                          "server/pull/4KiB@2 by server on the CPU",
                          "server/push/2MiB@1 by server on the CPU",
                          "server/push/2MiB@2 by server on the CPU",
                          "server/pull/2MiB@1 by server on the CPU",
                          "server/pull/2MiB@2 by server on the CPU"));
}

}  // namespace
}  // namespace tensorkv::bench::gpu
