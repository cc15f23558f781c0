#include "kernels/cuda/cuda_device.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "kernels/cuda/accumulate_types.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/update_launch.h"
#include "nvtx3/nvToolsExt.h"

// Returns from the enclosing member of CudaDevice, or of what has a device_, if
// `expr`, a call of the CUDA runtime, fails. The rest are the sizes, for the
// message.
#define RETURN_IF_CUDA_ERROR(device, expr, ...) \
  RETURN_IF_ERROR((device).Check(expr, absl::StrCat(#expr, ##__VA_ARGS__)))

namespace tensorkv {
namespace {

// Compute capability 8.0, the oldest that cuda.bzl compiles for.
constexpr int kMinMajorVersion = 8;

// Loads the kernels of all rules over all types; returns the first error.
cudaError_t LoadAllUpdates() {
  cudaError_t error = cudaSuccess;
  for (int type = 0; type <= static_cast<int>(ElementType::kBool); ++type) {
    VisitAccumulateType(static_cast<ElementType>(type), [&](auto tag) {
      using T = typename decltype(tag)::T;
      for (int rule = 0; rule < kNumRuleKinds; ++rule) {
        if (error == cudaSuccess) {
          error = LoadUpdate<T>(static_cast<RuleKind>(rule));
        }
      }
    });
  }
  return error;
}

}  // namespace

class CudaEvent final : public Event {
 public:
  CudaEvent(CudaDevice* device, cudaEvent_t event)
      : device_(*device), event_(event) {}
  // A device that has failed needs nothing back.
  ~CudaEvent() override {
    if (device_.MakeCurrent().ok()) cudaEventDestroy(event_);
  }

  // Looks again and again for as long as waking a thread takes, then sleeps.
  absl::Status Wait() override {
    RETURN_IF_ERROR(device_.MakeCurrent());
    const auto end = std::chrono::steady_clock::now() +
                     absl::ToChronoNanoseconds(device_.options_.spin_time);
    cudaError_t error = cudaErrorNotReady;
    while (error == cudaErrorNotReady &&
           std::chrono::steady_clock::now() < end) {
      error = cudaEventQuery(event_);
    }
    if (error != cudaErrorNotReady) {
      return device_.Check(error, "cudaEventQuery");
    }
    cudaGetLastError();  // or the thread's next launch would report it
    RETURN_IF_CUDA_ERROR(device_, cudaEventSynchronize(event_));
    return absl::OkStatus();
  }

  cudaEvent_t event() const { return event_; }

 private:
  CudaDevice& device_;
  const cudaEvent_t event_;
};

class CudaStream final : public Stream {
 public:
  CudaStream(CudaDevice* device, cudaStream_t stream)
      : device_(*device), stream_(stream) {}
  ~CudaStream() override {
    // Nobody is left who could be told.
    if (Synchronize().ok()) cudaStreamDestroy(stream_);
  }

  absl::Status CopyToDevice(void* device, const void* pinned,
                            size_t size_bytes) override {
    return Copy(device, pinned, size_bytes, cudaMemcpyHostToDevice);
  }
  absl::Status CopyToHost(void* pinned, const void* device,
                          size_t size_bytes) override {
    return Copy(pinned, device, size_bytes, cudaMemcpyDeviceToHost);
  }

  absl::Status Launch(const UpdateLaunch& launch) override {
    RETURN_IF_ERROR(device_.MakeCurrent());
    const unsigned num_blocks =
        std::min(launch.work.num_tasks(), device_.max_blocks_);
    RETURN_IF_CUDA_ERROR(
        device_, device_.options_.launcher(launch, num_blocks, stream_),
        " of an update kernel over ", launch.work.num_chunks, " chunks");
    return absl::OkStatus();
  }

  absl::Status Record(Event& event) override {
    RETURN_IF_ERROR(device_.MakeCurrent());
    RETURN_IF_CUDA_ERROR(
        device_,
        cudaEventRecord(static_cast<CudaEvent&>(event).event(), stream_));
    return absl::OkStatus();
  }

  absl::Status WaitFor(const Event& event) override {
    RETURN_IF_ERROR(device_.MakeCurrent());
    const cudaEvent_t waited_for = static_cast<const CudaEvent&>(event).event();
    RETURN_IF_CUDA_ERROR(device_, cudaStreamWaitEvent(stream_, waited_for, 0));
    return absl::OkStatus();
  }

  absl::Status Synchronize() override {
    RETURN_IF_ERROR(device_.MakeCurrent());
    RETURN_IF_CUDA_ERROR(device_, cudaStreamSynchronize(stream_));
    return absl::OkStatus();
  }

  absl::StatusOr<bool> IsDone() override {
    RETURN_IF_ERROR(device_.MakeCurrent());
    const cudaError_t error = cudaStreamQuery(stream_);
    if (error != cudaErrorNotReady) {
      RETURN_IF_ERROR(device_.Check(error, "cudaStreamQuery"));
      return true;
    }
    cudaGetLastError();  // or the thread's next launch would report it
    return false;
  }

  void* handle() override { return stream_; }

  cudaStream_t stream() const { return stream_; }

 private:
  absl::Status Copy(void* to, const void* from, size_t size_bytes,
                    cudaMemcpyKind kind) {
    RETURN_IF_ERROR(device_.MakeCurrent());
    RETURN_IF_CUDA_ERROR(device_,
                         cudaMemcpyAsync(to, from, size_bytes, kind, stream_),
                         " of ", size_bytes, " bytes");
    return absl::OkStatus();
  }

  CudaDevice& device_;
  const cudaStream_t stream_;
};

cudaError_t LaunchAnyUpdate(const UpdateLaunch& launch, unsigned num_blocks,
                            cudaStream_t stream) {
  cudaError_t error = cudaErrorInvalidDeviceFunction;
  VisitAccumulateType(launch.accumulate_type, [&](auto type) {
    using T = typename decltype(type)::T;
    error = LaunchUpdate<T>(launch, num_blocks, stream);
  });
  return error;
}

absl::StatusOr<int> NumCudaDevices() {
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error == cudaErrorNoDevice) return 0;
  RETURN_IF_ERROR(StatusOfCuda(error, "cudaGetDeviceCount"));
  return num_devices;
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(
    int ordinal, const CudaDeviceOptions& options) {
  ASSIGN_OR_RETURN(const int num_devices, NumCudaDevices());
  if (ordinal < 0 || ordinal >= num_devices) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cuda:", ordinal, ": the driver shows ", num_devices, " GPUs"));
  }
  std::unique_ptr<CudaDevice> device(new CudaDevice(ordinal, options));
  RETURN_IF_ERROR(device->Open());
  return device;
}

CudaDevice::CudaDevice(int ordinal, const CudaDeviceOptions& options)
    : ordinal_(ordinal),
      options_(options),
      name_(absl::StrCat("cuda:", ordinal)),
      health_(name_) {}

CudaDevice::~CudaDevice() {
  if (pool_ != nullptr && MakeCurrent().ok()) cudaMemPoolDestroy(pool_);
}

absl::Status CudaDevice::MakeCurrent() {
  RETURN_IF_ERROR(health_.status());
  RETURN_IF_CUDA_ERROR(*this, cudaSetDevice(ordinal_));
  return absl::OkStatus();
}

absl::Status CudaDevice::Check(cudaError_t error, absl::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // or the thread's next launch would report it again
  const absl::Status status =
      StatusOfCuda(error, absl::StrCat(name_, ": ", call));
  return MeansDeviceFailed(error) ? health_.MarkFailed(status) : status;
}

absl::Status CudaDevice::Open() {
  RETURN_IF_ERROR(MakeCurrent());
  RETURN_IF_ERROR(CheckUsable());
  RETURN_IF_ERROR(LoadKernels());  // before what is free is looked at
  ASSIGN_OR_RETURN(const int num_multiprocessors,
                   Attribute(cudaDevAttrMultiProcessorCount));
  max_blocks_ = options_.blocks_per_multiprocessor == 0
                    ? INT_MAX
                    : num_multiprocessors * options_.blocks_per_multiprocessor;
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  RETURN_IF_CUDA_ERROR(*this, cudaMemGetInfo(&free_bytes, &total_bytes));
  free_bytes_ = free_bytes;
  cudaDeviceProp properties = {};
  RETURN_IF_CUDA_ERROR(*this, cudaGetDeviceProperties(&properties, ordinal_));
  uuid_ = absl::BytesToHexString(
      absl::string_view(properties.uuid.bytes, sizeof(properties.uuid.bytes)));
  ASSIGN_OR_RETURN(const int has_pools,
                   Attribute(cudaDevAttrMemoryPoolsSupported));
  if (has_pools == 0 || !options_.uses_pool) return absl::OkStatus();
  return CreatePool();
}

absl::Status CudaDevice::CreatePool() {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = ordinal_;
  RETURN_IF_CUDA_ERROR(*this, cudaMemPoolCreate(&pool_, &properties));
  uint64_t keep_everything = UINT64_MAX;
  RETURN_IF_CUDA_ERROR(
      *this, cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold,
                                     &keep_everything));
  return absl::OkStatus();
}

bool CudaDevice::CanRead(const void* data) {
  cudaPointerAttributes place = {};
  if (!MakeCurrent().ok() ||
      !Check(cudaPointerGetAttributes(&place, data), "cudaPointerGetAttributes")
           .ok()) {
    return false;
  }
  if (place.type == cudaMemoryTypeHost) return true;  // pinned
  return place.type == cudaMemoryTypeDevice && place.device == ordinal_;
}

// Costs a look at a pointer where no profiler is there.
uint64_t CudaDevice::BeginRange(const char* name) {
  return nvtxRangeStartA(name);
}
void CudaDevice::EndRange(uint64_t range) { nvtxRangeEnd(range); }

absl::Status CudaDevice::CheckUsable() {
  ASSIGN_OR_RETURN(const int major,
                   Attribute(cudaDevAttrComputeCapabilityMajor));
  if (major >= kMinMajorVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(name_, ": expected compute capability ", kMinMajorVersion,
                   ".0 or newer, got ", major, ".x"));
}

absl::Status CudaDevice::LoadKernels() {
  ASSIGN_OR_RETURN(const int major,
                   Attribute(cudaDevAttrComputeCapabilityMajor));
  ASSIGN_OR_RETURN(const int minor,
                   Attribute(cudaDevAttrComputeCapabilityMinor));
  return Check(NormalizeLoadError(LoadAllUpdates()),
               absl::StrCat("loading the kernels for compute capability ",
                            major, ".", minor));
}

absl::StatusOr<int> CudaDevice::Attribute(cudaDeviceAttr attribute) {
  int value = 0;
  RETURN_IF_CUDA_ERROR(*this,
                       cudaDeviceGetAttribute(&value, attribute, ordinal_));
  return value;
}

absl::StatusOr<std::unique_ptr<Stream>> CudaDevice::CreateStream(
    StreamUse /*use*/) {
  RETURN_IF_ERROR(MakeCurrent());
  cudaStream_t stream;
  RETURN_IF_CUDA_ERROR(
      *this, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return std::make_unique<CudaStream>(this, stream);
}

absl::StatusOr<std::unique_ptr<Event>> CudaDevice::CreateEvent() {
  RETURN_IF_ERROR(MakeCurrent());
  constexpr unsigned kFlags = cudaEventDisableTiming | cudaEventBlockingSync;
  cudaEvent_t event;
  RETURN_IF_CUDA_ERROR(*this, cudaEventCreateWithFlags(&event, kFlags));
  return std::make_unique<CudaEvent>(this, event);
}

absl::StatusOr<void*> CudaDevice::Allocate(size_t size_bytes, Stream& stream) {
  RETURN_IF_ERROR(MakeCurrent());
  const cudaStream_t order = static_cast<CudaStream&>(stream).stream();
  void* data = nullptr;
  RETURN_IF_CUDA_ERROR(*this,
                       pool_ == nullptr ? cudaMalloc(&data, size_bytes)
                                        : cudaMallocFromPoolAsync(
                                              &data, size_bytes, pool_, order),
                       " of ", size_bytes, " bytes");
  return data;
}

absl::Status CudaDevice::Free(void* data, Stream& stream) {
  RETURN_IF_ERROR(MakeCurrent());
  if (pool_ == nullptr) {
    RETURN_IF_ERROR(stream.Synchronize());
    RETURN_IF_CUDA_ERROR(*this, cudaFree(data));
    return absl::OkStatus();
  }
  const cudaStream_t order = static_cast<CudaStream&>(stream).stream();
  RETURN_IF_CUDA_ERROR(*this, cudaFreeAsync(data, order));
  return absl::OkStatus();
}

absl::Status CudaDevice::Trim(Stream& stream) {
  RETURN_IF_ERROR(stream.Synchronize());
  if (pool_ == nullptr) return absl::OkStatus();
  RETURN_IF_CUDA_ERROR(*this, cudaMemPoolTrimTo(pool_, 0));
  return absl::OkStatus();
}

absl::StatusOr<void*> CudaDevice::AllocatePinned(size_t size_bytes) {
  RETURN_IF_ERROR(MakeCurrent());
  void* data = nullptr;
  RETURN_IF_CUDA_ERROR(*this,
                       cudaHostAlloc(&data, size_bytes, cudaHostAllocPortable),
                       " of ", size_bytes, " bytes");
  return data;
}

absl::Status CudaDevice::FreePinned(void* data) {
  RETURN_IF_ERROR(MakeCurrent());
  RETURN_IF_CUDA_ERROR(*this, cudaFreeHost(data));
  return absl::OkStatus();
}

}  // namespace tensorkv
