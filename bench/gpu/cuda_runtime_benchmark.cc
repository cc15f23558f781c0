// Asks the CUDA runtime what its calls cost on a GPU: what kernels/cuda assumes
// of them, where no document says it. A line for each figure.
//
// Exit status: 0; 1 if a call failed; 77, which means skipped, where there is
// no GPU.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "bench/gpu/probe_kernels.h"
#include "bench/harness/clocks.h"
#include "kernels/cuda/cuda_status.h"

#define RETURN_IF_CUDA_ERROR(expr) RETURN_IF_ERROR(StatusOfCuda(expr, #expr))

namespace tensorkv::bench::gpu {
namespace {

constexpr int kSkipped = 77;
constexpr int kRepetitions = 201;
constexpr size_t kKiB = 1 << 10;
constexpr size_t kMiB = 1 << 20;
constexpr size_t kGiB = 1 << 30;

void Print(const std::string& name, double value, const char* unit) {
  std::printf("%-52s %14.2f %s\n", name.c_str(), value, unit);
}

std::string SizeText(size_t bytes) {
  if (bytes % kMiB == 0) return absl::StrCat(bytes / kMiB, " MiB");
  if (bytes % kKiB == 0) return absl::StrCat(bytes / kKiB, " KiB");
  return absl::StrCat(bytes, " B");
}

// The median of what `call` takes.
absl::Status PrintMedian(const std::string& name,
                         const std::function<cudaError_t()>& call) {
  std::vector<absl::Duration> took;
  for (int i = 0; i < kRepetitions; ++i) {
    const absl::Duration start = SteadyTime();
    RETURN_IF_ERROR(StatusOfCuda(call(), name));
    took.push_back(SteadyTime() - start);
  }
  std::nth_element(took.begin(), took.begin() + kRepetitions / 2, took.end());
  Print(name, absl::ToDoubleMicroseconds(took[kRepetitions / 2]), "us");
  return absl::OkStatus();
}

// All of one run. What it has made lives until the process ends.
class Probe {
 public:
  absl::Status Run() {
    RETURN_IF_ERROR(Open());
    RETURN_IF_ERROR(MeasureRounding());
    RETURN_IF_ERROR(MeasureAllocation());
    RETURN_IF_ERROR(MeasureWaiting());
    RETURN_IF_ERROR(MeasureCopies());
    RETURN_IF_ERROR(MeasureReads());
    RETURN_IF_ERROR(MeasureLaunches());
    RETURN_IF_ERROR(MeasureHostCalls());
    return MeasureFragmentation();
  }

 private:
  absl::Status Open();
  // What allocations take of a pool (kernels/cuda/device_pool.h).
  absl::Status MeasureRounding();
  absl::Status MeasureAllocation();
  // How long it takes to hear of the end of a kernel (CudaEvent::Wait).
  absl::Status MeasureWaiting();
  absl::Status MeasureCopies();
  // Kernels that read page-locked memory.
  absl::Status MeasureReads();
  // What the size of a kernel's parameters costs (update_work.h).
  absl::Status MeasureLaunches();
  absl::Status MeasureHostCalls();
  // Whether memory that is free in pieces can be had in one.
  absl::Status MeasureFragmentation();

  absl::Status PrintPool(cudaMemPoolAttr attribute, const std::string& name);
  cudaError_t Allocate(size_t bytes, void** data) {
    return cudaMallocFromPoolAsync(data, bytes, pool_, stream_);
  }

  cudaDeviceProp properties_;
  cudaMemPool_t pool_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t blocking_ = nullptr;
  uint32_t* pinned_ = nullptr;  // 64 MiB
  char* device_ = nullptr;      // as much
};

absl::Status Probe::Open() {
  RETURN_IF_CUDA_ERROR(cudaSetDevice(0));
  RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties_, 0));
  std::printf("%s\n", properties_.name);
  for (const auto& [name, attribute] :
       {std::pair{"multiprocessors", cudaDevAttrMultiProcessorCount},
        std::pair{"memory pools", cudaDevAttrMemoryPoolsSupported},
        std::pair{"copy engines", cudaDevAttrAsyncEngineCount},
        std::pair{"page-locked memory of others is read",
                  cudaDevAttrCanUseHostPointerForRegisteredMem}}) {
    int value = 0;
    RETURN_IF_CUDA_ERROR(cudaDeviceGetAttribute(&value, attribute, 0));
    Print(name, value, "");
  }
  cudaMemPoolProps pool = {};
  pool.allocType = cudaMemAllocationTypePinned;
  pool.location.type = cudaMemLocationTypeDevice;
  RETURN_IF_CUDA_ERROR(cudaMemPoolCreate(&pool_, &pool));
  uint64_t keep_everything = UINT64_MAX;
  RETURN_IF_CUDA_ERROR(cudaMemPoolSetAttribute(
      pool_, cudaMemPoolAttrReleaseThreshold, &keep_everything));
  RETURN_IF_CUDA_ERROR(
      cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(
      &blocking_, cudaEventDisableTiming | cudaEventBlockingSync));
  RETURN_IF_CUDA_ERROR(cudaHostAlloc(reinterpret_cast<void**>(&pinned_),
                                     64 * kMiB, cudaHostAllocPortable));
  return StatusOfCuda(cudaMalloc(reinterpret_cast<void**>(&device_), 64 * kMiB),
                      "cudaMalloc");
}

absl::Status Probe::PrintPool(cudaMemPoolAttr attribute,
                              const std::string& name) {
  uint64_t bytes = 0;
  RETURN_IF_CUDA_ERROR(cudaMemPoolGetAttribute(pool_, attribute, &bytes));
  Print(name, static_cast<double>(bytes), "bytes");
  return absl::OkStatus();
}

absl::Status Probe::MeasureRounding() {
  for (const size_t bytes :
       {size_t{1}, size_t{513}, 4 * kKiB, 2 * kMiB + 1, kGiB + 1}) {
    void* data = nullptr;
    RETURN_IF_CUDA_ERROR(Allocate(bytes, &data));
    RETURN_IF_ERROR(PrintPool(cudaMemPoolAttrUsedMemCurrent,
                              absl::StrCat("used by ", bytes, " bytes")));
    RETURN_IF_ERROR(PrintPool(cudaMemPoolAttrReservedMemCurrent,
                              absl::StrCat("reserved for ", bytes, " bytes")));
    RETURN_IF_CUDA_ERROR(cudaFreeAsync(data, stream_));
    RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
    RETURN_IF_CUDA_ERROR(cudaMemPoolTrimTo(pool_, 0));
  }
  return absl::OkStatus();
}

absl::Status Probe::MeasureAllocation() {
  for (const size_t bytes : {4 * kKiB, 2 * kMiB, 64 * kMiB}) {
    void* data = nullptr;
    RETURN_IF_ERROR(PrintMedian(
        absl::StrCat("allocate and free ", SizeText(bytes), " of a pool"), [&] {
          const cudaError_t error = Allocate(bytes, &data);
          return error != cudaSuccess ? error : cudaFreeAsync(data, stream_);
        }));
    RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
  }
  return absl::OkStatus();
}

absl::Status Probe::MeasureWaiting() {
  uint32_t* const word = reinterpret_cast<uint32_t*>(device_);
  const auto record = [&](uint32_t* to) {
    const cudaError_t error = LaunchWrite(1, to, stream_);
    return error != cudaSuccess ? error : cudaEventRecord(blocking_, stream_);
  };
  RETURN_IF_ERROR(PrintMedian("kernel, then a blocking event", [&] {
    const cudaError_t error = record(word);
    return error != cudaSuccess ? error : cudaEventSynchronize(blocking_);
  }));
  RETURN_IF_ERROR(
      PrintMedian("kernel, then an event asked again and again", [&] {
        cudaError_t error = record(word);
        if (error != cudaSuccess) return error;
        do {
          error = cudaEventQuery(blocking_);
        } while (error == cudaErrorNotReady);
        return error;
      }));
  return PrintMedian("kernel, then a word that it writes to the host", [&] {
    std::atomic_ref<uint32_t> written(*pinned_);
    written = 0;
    const cudaError_t error = LaunchWrite(1, pinned_, stream_);
    while (error == cudaSuccess && written == 0) {
    }
    return error;
  });
}

absl::Status Probe::MeasureCopies() {
  for (const size_t bytes : {256 * kKiB, kMiB, 4 * kMiB, 64 * kMiB}) {
    const auto copy = [&] {
      return cudaMemcpyAsync(device_, pinned_, bytes, cudaMemcpyHostToDevice,
                             stream_);
    };
    const std::string size = SizeText(bytes);
    RETURN_IF_ERROR(
        PrintMedian(absl::StrCat("copy ", size, " to the device, wait"), [&] {
          const cudaError_t error = copy();
          return error != cudaSuccess ? error : cudaStreamSynchronize(stream_);
        }));
    RETURN_IF_ERROR(PrintMedian(
        absl::StrCat("copy ", size, " behind an event, record, wait"), [&] {
          cudaError_t error = cudaStreamWaitEvent(stream_, blocking_, 0);
          if (error == cudaSuccess) error = copy();
          if (error == cudaSuccess) error = cudaEventRecord(blocking_, stream_);
          return error != cudaSuccess ? error : cudaStreamSynchronize(stream_);
        }));
  }
  return absl::OkStatus();
}

absl::Status Probe::MeasureReads() {
  uint32_t* const sum = reinterpret_cast<uint32_t*>(device_);
  for (const size_t bytes : {4 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB}) {
    for (const bool is_pinned : {true, false}) {
      const void* const data =
          is_pinned ? static_cast<const void*>(pinned_) : device_ + 32 * kMiB;
      RETURN_IF_ERROR(PrintMedian(
          absl::StrCat("kernel that reads ", SizeText(bytes),
                       is_pinned ? " of the host" : " of the device", ", wait"),
          [&] {
            const cudaError_t error = LaunchRead(data, bytes, sum, stream_);
            return error != cudaSuccess ? error
                                        : cudaStreamSynchronize(stream_);
          }));
    }
  }
  return absl::OkStatus();
}

absl::Status Probe::MeasureLaunches() {
  for (const bool are_large : {false, true}) {
    const char* const size = are_large ? "32,764 bytes" : "4 KiB";
    RETURN_IF_ERROR(
        PrintMedian(absl::StrCat("launch with parameters of ", size),
                    [&] { return LaunchWithParameters(are_large, stream_); }));
    RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
    RETURN_IF_ERROR(PrintMedian(absl::StrCat("the same, wait, of ", size), [&] {
      const cudaError_t error = LaunchWithParameters(are_large, stream_);
      return error != cudaSuccess ? error : cudaStreamSynchronize(stream_);
    }));
  }
  return absl::OkStatus();
}

absl::Status Probe::MeasureHostCalls() {
  RETURN_IF_ERROR(
      PrintMedian("cudaSetDevice", [] { return cudaSetDevice(0); }));
  cudaPointerAttributes attributes;
  RETURN_IF_ERROR(PrintMedian(
      "cudaPointerGetAttributes of page-locked memory",
      [&] { return cudaPointerGetAttributes(&attributes, pinned_); }));
  std::vector<char> pageable(4096);
  RETURN_IF_ERROR(PrintMedian(
      "cudaPointerGetAttributes of pageable memory",
      [&] { return cudaPointerGetAttributes(&attributes, pageable.data()); }));
  const absl::Duration start = SteadyTime();
  void* locked = nullptr;
  RETURN_IF_CUDA_ERROR(
      cudaHostAlloc(&locked, 64 * kMiB, cudaHostAllocPortable));
  Print("lock 64 MiB of the host",
        absl::ToDoubleMicroseconds(SteadyTime() - start), "us");
  return StatusOfCuda(cudaFreeHost(locked), "cudaFreeHost");
}

absl::Status Probe::MeasureFragmentation() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  RETURN_IF_CUDA_ERROR(cudaMemGetInfo(&free_bytes, &total_bytes));
  std::vector<void*> pieces;
  size_t used = 0;
  for (size_t i = 0; used < free_bytes / 10 * 9; ++i) {
    constexpr size_t kSizes[] = {256 * kMiB, 3 * kMiB, 700 * kMiB, 40 * kKiB};
    const size_t bytes = kSizes[i % 4];
    if (Allocate(bytes, &pieces.emplace_back()) != cudaSuccess) {
      pieces.pop_back();
      break;
    }
    used += bytes;
  }
  for (size_t i = 0; i < pieces.size(); i += 2) {
    RETURN_IF_CUDA_ERROR(cudaFreeAsync(pieces[i], stream_));
  }
  void* whole = nullptr;
  const cudaError_t at_once = Allocate(kGiB, &whole);
  cudaGetLastError();
  Print("1 GiB of memory that is free in pieces: at once",
        at_once == cudaSuccess ? 1 : 0, "of 1");
  if (at_once == cudaSuccess) {
    RETURN_IF_CUDA_ERROR(cudaFreeAsync(whole, stream_));
  }
  RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
  const absl::Duration start = SteadyTime();
  RETURN_IF_CUDA_ERROR(cudaMemPoolTrimTo(pool_, 0));
  Print("trim what is free", absl::ToDoubleMicroseconds(SteadyTime() - start),
        "us");
  int num_whole = 0;
  while (Allocate(kGiB, &whole) == cudaSuccess) ++num_whole;
  cudaGetLastError();
  Print("pieces of 1 GiB after that", num_whole,
        absl::StrCat("of ", (free_bytes - used / 2) / kGiB, " or so").c_str());
  return absl::OkStatus();
}

int Main() {
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error != cudaSuccess || num_devices == 0) {
    std::fprintf(stderr, "cuda_runtime_benchmark: skipped: %s\n",
                 error == cudaSuccess ? "the driver shows no GPU"
                                      : cudaGetErrorString(error));
    return kSkipped;
  }
  const absl::Status status = Probe().Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "cuda_runtime_benchmark: %s\n",
               std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace tensorkv::bench::gpu

int main() { return tensorkv::bench::gpu::Main(); }
