// All that the benchmark itself asks of the CUDA runtime.

#include "bench/gpu/open_cuda_copies.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/harness/clocks.h"
#include "kernels/cuda/cuda_status.h"

#define RETURN_IF_CUDA_ERROR(expr) RETURN_IF_ERROR(StatusOfCuda(expr, #expr))

namespace tensorkv::bench::gpu {
namespace {

// Bytes that are f32 and bf16 numbers near a half, as in the updates.
constexpr int kFill = 0x3f;

// Memory of the device or the host, freed at the end.
using Memory = std::unique_ptr<void, cudaError_t (*)(void*)>;

absl::StatusOr<Memory> AllocateOnDevice(size_t size_bytes) {
  void* data = nullptr;
  RETURN_IF_ERROR(
      StatusOfCuda(cudaMalloc(&data, size_bytes),
                   absl::StrCat("cudaMalloc of ", size_bytes, " bytes")));
  Memory memory(data, cudaFree);
  RETURN_IF_CUDA_ERROR(cudaMemset(data, kFill, size_bytes));
  return memory;
}

absl::StatusOr<Memory> AllocatePinned(size_t size_bytes) {
  void* data = nullptr;
  RETURN_IF_ERROR(
      StatusOfCuda(cudaMallocHost(&data, size_bytes),
                   absl::StrCat("cudaMallocHost of ", size_bytes, " bytes")));
  Memory memory(data, cudaFreeHost);
  std::memset(data, kFill, size_bytes);
  return memory;
}

cudaMemcpyKind KindOf(CopyDirection direction) {
  switch (direction) {
    case CopyDirection::kWithinDevice:
      return cudaMemcpyDeviceToDevice;
    case CopyDirection::kToDevice:
      return cudaMemcpyHostToDevice;
    case CopyDirection::kToHost:
      return cudaMemcpyDeviceToHost;
  }
  return cudaMemcpyDefault;
}

class CudaCopyLoad final : public Load {
 public:
  static absl::StatusOr<std::unique_ptr<Load>> Create(int ordinal,
                                                      CopyDirection direction,
                                                      int64_t size_bytes) {
    RETURN_IF_CUDA_ERROR(cudaSetDevice(ordinal));
    ASSIGN_OR_RETURN(Memory from, direction == CopyDirection::kToDevice
                                      ? AllocatePinned(size_bytes)
                                      : AllocateOnDevice(size_bytes));
    ASSIGN_OR_RETURN(Memory to, direction == CopyDirection::kToHost
                                    ? AllocatePinned(size_bytes)
                                    : AllocateOnDevice(size_bytes));
    // The stream below does not wait for what filled the memory.
    RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());
    cudaStream_t stream;
    RETURN_IF_CUDA_ERROR(
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return std::unique_ptr<Load>(new CudaCopyLoad(ordinal, direction,
                                                  size_bytes, std::move(from),
                                                  std::move(to), stream));
  }
  // Nobody is left who could be told of an error.
  ~CudaCopyLoad() override { cudaStreamDestroy(stream_); }

  absl::Status Run(int64_t num_calls,
                   std::vector<absl::Duration>* latencies) override {
    RETURN_IF_CUDA_ERROR(cudaSetDevice(ordinal_));
    const absl::Duration start = SteadyTime();
    for (int64_t i = 0; i < num_calls; ++i) {
      RETURN_IF_CUDA_ERROR(
          cudaMemcpyAsync(to_.get(), from_.get(), size_bytes_, kind_, stream_));
    }
    RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
    const absl::Duration took = SteadyTime() - start;
    latencies->insert(latencies->end(), num_calls, took / num_calls);
    return absl::OkStatus();
  }

 private:
  CudaCopyLoad(int ordinal, CopyDirection direction, int64_t size_bytes,
               Memory from, Memory to, cudaStream_t stream)
      : Load({.bytes_per_call = BytesMovedBy(direction, size_bytes)}),
        ordinal_(ordinal),
        kind_(KindOf(direction)),
        size_bytes_(size_bytes),
        from_(std::move(from)),
        to_(std::move(to)),
        stream_(stream) {}

  const int ordinal_;
  const cudaMemcpyKind kind_;
  const size_t size_bytes_;
  const Memory from_;
  const Memory to_;
  const cudaStream_t stream_;
};

class CudaCopies final : public PlainCopies {
 public:
  CudaCopies(int ordinal, std::string device_name)
      : ordinal_(ordinal), device_name_(std::move(device_name)) {}

  std::string device_name() const override { return device_name_; }
  absl::StatusOr<std::unique_ptr<Load>> MakeLoad(CopyDirection direction,
                                                 int64_t size_bytes) override {
    return CudaCopyLoad::Create(ordinal_, direction, size_bytes);
  }

 private:
  const int ordinal_;
  const std::string device_name_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PlainCopies>> OpenCudaCopies(int ordinal) {
  cudaDeviceProp properties;
  RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, ordinal));
  return std::make_unique<CudaCopies>(ordinal, properties.name);
}

}  // namespace tensorkv::bench::gpu
