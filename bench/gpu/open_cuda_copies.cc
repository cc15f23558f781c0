// All that the benchmark itself asks of the CUDA runtime.

#include "bench/gpu/open_cuda_copies.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
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

// Both ends of a copy, and the stream that it is queued on.
struct Copies {
  // Nobody is left who could be told of an error.
  ~Copies() { cudaStreamDestroy(stream); }

  absl::Status Queue() {
    RETURN_IF_CUDA_ERROR(cudaSetDevice(ordinal));
    RETURN_IF_CUDA_ERROR(
        cudaMemcpyAsync(to.get(), from.get(), size_bytes, kind, stream));
    return absl::OkStatus();
  }
  absl::Status Wait() {
    RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream));
    return absl::OkStatus();
  }

  int ordinal;
  cudaMemcpyKind kind;
  size_t size_bytes;
  Memory from;
  Memory to;
  cudaStream_t stream;
};

absl::StatusOr<Load> MakeCopies(int ordinal, CopyDirection direction,
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
  const std::shared_ptr<Copies> copies(
      new Copies{ordinal, KindOf(direction), static_cast<size_t>(size_bytes),
                 std::move(from), std::move(to), stream});
  const int directions = direction == CopyDirection::kWithinDevice ? 2 : 1;
  return Load{.call = [=] { return copies->Queue(); },
              .bytes = directions * size_bytes,
              .wait = [=] { return copies->Wait(); }};
}

}  // namespace

absl::StatusOr<CudaCopies> OpenCudaCopies(int ordinal) {
  cudaDeviceProp properties;
  RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, ordinal));
  return CudaCopies{properties.name,
                    [=](CopyDirection direction, int64_t size_bytes) {
                      return MakeCopies(ordinal, direction, size_bytes);
                    }};
}

}  // namespace tensorkv::bench::gpu
