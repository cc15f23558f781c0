#include "service/server/open_device.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cores.h"
#include "kernels/cpu/cpu_backend.h"
#include "service/server/memory_size.h"

namespace tensorkv {
namespace {

int ThreadsOf(int num_threads) {
  return num_threads > 0 ? num_threads : NumCores();
}

OpenedDevice OpenCpu(int num_threads) {
  return {.backend = std::make_unique<CpuBackend>(ThreadsOf(num_threads)),
          .memory_bytes = MemorySizeBytes()};
}

absl::Status Unusable(int ordinal, const absl::Status& reason) {
  return absl::FailedPreconditionError(absl::StrCat(
      "--device=cuda:", ordinal, ": cannot use that GPU: ", reason.message()));
}

}  // namespace

absl::StatusOr<OpenedDevice> OpenDevice(
    const DeviceChoice& choice, int num_threads,
    absl::FunctionRef<absl::StatusOr<OpenedCudaBackend>(int ordinal)>
        open_cuda) {
  if (choice.kind == DeviceChoice::Kind::kCpu) return OpenCpu(num_threads);
  absl::StatusOr<OpenedCudaBackend> cuda = open_cuda(choice.ordinal);
  if (!cuda.ok() && choice.kind == DeviceChoice::Kind::kCuda) {
    return Unusable(choice.ordinal, cuda.status());
  }
  if (!cuda.ok()) {
    OpenedDevice cpu = OpenCpu(num_threads);
    cpu.why_not_cuda = std::string(cuda.status().message());
    return cpu;
  }
  return OpenedDevice{.backend = std::move(cuda->backend),
                      .memory_bytes = cuda->memory_bytes,
                      .usage = std::move(cuda->usage),
                      .open_link = std::move(cuda->open_link)};
}

}  // namespace tensorkv
