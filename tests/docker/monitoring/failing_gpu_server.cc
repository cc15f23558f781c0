// A server with a GPU that fails at SIGUSR1: failing_gpu_server
// METRICS_ADDRESS. It runs until it is killed.

#include <pthread.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>

#include "kernels/cuda/cuda_backend.h"
#include "service/server/open_device.h"
#include "service/server/server.h"
#include "tests/testing/fake_gpu.h"

namespace tensorkv::testing {
namespace {

constexpr uint64_t kGpuBytes = 1 << 23;

int Main(const char* metrics_address) {
  // Before threads start, which all are to leave it to this one.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  FakeGpu gpu;
  auto backend = CudaBackend::Create(gpu.Open(), {.quota_bytes = kGpuBytes});
  if (!backend.ok()) return 1;
  DeviceHealth& health = (*backend)->health();
  const auto server = Server::Create(
      {.listen = "127.0.0.1:0", .metrics_listen = metrics_address},
      {.backend = *std::move(backend), .memory_bytes = kGpuBytes});
  if (!server.ok()) return 1;
  std::fprintf(stderr, " ready listen=%s metrics=%s\n",
               (*server)->address().c_str(),
               (*server)->metrics_address().c_str());
  int signal = 0;
  sigwait(&signals, &signal);
  health.MarkFailed(absl::InternalError("fell off the bus")).IgnoreError();
  while (true) sigwait(&signals, &signal);
}

}  // namespace
}  // namespace tensorkv::testing

int main(int argc, char** argv) {
  return argc == 2 ? tensorkv::testing::Main(argv[1]) : 2;
}
