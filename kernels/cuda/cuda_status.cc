#include "kernels/cuda/cuda_status.h"

#include "absl/strings/str_cat.h"

namespace tensorkv {
namespace {

// Returns whether nothing here can be used, from the start.
bool MeansNoDevice(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorStubLibrary:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return true;
    default:
      return false;
  }
}

absl::StatusCode CodeOf(cudaError_t error) {
  if (error == cudaErrorMemoryAllocation) {
    return absl::StatusCode::kResourceExhausted;
  }
  if (MeansNoDevice(error)) return absl::StatusCode::kFailedPrecondition;
  return MeansDeviceFailed(error) ? absl::StatusCode::kUnavailable
                                  : absl::StatusCode::kInternal;
}

}  // namespace

// Returns whether the error is one of which the runtime's manual says that the
// process must be ended.
bool MeansDeviceFailed(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorExternalDevice:
    case cudaErrorContextIsDestroyed:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorMpsClientTerminated:
    case cudaErrorCudartUnloading:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

cudaError_t NormalizeLoadError(cudaError_t error) {
  return error == cudaErrorInvalidDeviceFunction
             ? cudaErrorNoKernelImageForDevice
             : error;
}

absl::Status StatusOfCuda(cudaError_t error, absl::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::Status(CodeOf(error),
                      absl::StrCat(call, ": ", cudaGetErrorName(error), " (",
                                   cudaGetErrorString(error), ")"));
}

}  // namespace tensorkv
