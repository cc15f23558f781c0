#include "bench/gpu/runtime.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

// A pool as the backend's, a stream, and an event that blocks.
struct Pool {
  static absl::StatusOr<std::shared_ptr<Pool>> Create(int ordinal) {
    RETURN_IF_CUDA_ERROR(cudaSetDevice(ordinal));
    const auto made = std::make_shared<Pool>();
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = ordinal;
    RETURN_IF_CUDA_ERROR(cudaMemPoolCreate(&made->pool, &properties));
    RETURN_IF_CUDA_ERROR(
        cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking));
    RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(
        &made->event, cudaEventDisableTiming | cudaEventBlockingSync));
    return made;
  }
  // Nobody is left who could be told of an error.
  ~Pool() {
    cudaStreamSynchronize(stream);
    cudaEventDestroy(event);
    cudaStreamDestroy(stream);
    cudaMemPoolDestroy(pool);
  }

  // Returns what an allocation of so many bytes takes.
  absl::StatusOr<double> BytesUsedBy(size_t bytes) {
    void* data = nullptr;
    RETURN_IF_CUDA_ERROR(cudaMallocFromPoolAsync(&data, bytes, pool, stream));
    uint64_t used = 0;
    RETURN_IF_CUDA_ERROR(
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    RETURN_IF_CUDA_ERROR(cudaFreeAsync(data, stream));
    return static_cast<double>(used);
  }
  absl::Status AllocateAndFree(size_t bytes) {
    void* data = nullptr;
    RETURN_IF_CUDA_ERROR(cudaMallocFromPoolAsync(&data, bytes, pool, stream));
    RETURN_IF_CUDA_ERROR(cudaFreeAsync(data, stream));
    return absl::OkStatus();
  }
  // Hears of the end of a piece of work: asleep, or by asking again and again.
  absl::Status Await(bool asks) {
    void* data = nullptr;
    RETURN_IF_CUDA_ERROR(cudaMallocFromPoolAsync(&data, 512, pool, stream));
    RETURN_IF_CUDA_ERROR(cudaMemsetAsync(data, 0, 512, stream));
    RETURN_IF_CUDA_ERROR(cudaFreeAsync(data, stream));
    RETURN_IF_CUDA_ERROR(cudaEventRecord(event, stream));
    if (!asks) return StatusOfCuda(cudaEventSynchronize(event), "event");
    cudaError_t error = cudaErrorNotReady;
    while (error == cudaErrorNotReady) error = cudaEventQuery(event);
    return StatusOfCuda(error, "cudaEventQuery");
  }

  cudaMemPool_t pool = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
};

std::vector<Row> RuntimeRows(int ordinal) {
  const auto load = [=](std::function<absl::Status(Pool*)> call) {
    return [=]() -> absl::StatusOr<Load> {
      ASSIGN_OR_RETURN(const auto pool, Pool::Create(ordinal));
      return Load{.call = [=] { return call(pool.get()); }};
    };
  };
  std::vector<Row> rows;
  for (const size_t bytes : {1, 513, 4097, (2 << 20) + 1}) {
    rows.push_back({.name = absl::StrCat("runtime/bytes_taken/", bytes),
                    .figure = [=]() -> absl::StatusOr<double> {
                      ASSIGN_OR_RETURN(const auto pool, Pool::Create(ordinal));
                      return pool->BytesUsedBy(bytes);
                    },
                    // As kernels/cuda/device_pool.h has it.
                    .most = static_cast<double>((bytes + 511) / 512 * 512)});
  }
  for (const size_t bytes : {4 << 10, 2 << 20, 64 << 20}) {
    rows.push_back({.name = absl::StrCat("runtime/allocate_and_free/", bytes),
                    .make_load = load([=](Pool* pool) {
                      return pool->AllocateAndFree(bytes);
                    })});
  }
  rows.push_back(
      {.name = "runtime/await/asking",
       .make_load = load([](Pool* pool) { return pool->Await(true); }),
       .references = {
           {"asleep", load([](Pool* pool) { return pool->Await(false); })}}});
  return rows;
}

}  // namespace

absl::StatusOr<CudaRuntime> OpenCudaRuntime(int ordinal) {
  cudaDeviceProp properties;
  RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, ordinal));
  return CudaRuntime{properties.name,
                     [=](CopyDirection direction, int64_t size_bytes) {
                       return MakeCopies(ordinal, direction, size_bytes);
                     },
                     RuntimeRows(ordinal)};
}

}  // namespace tensorkv::bench::gpu
