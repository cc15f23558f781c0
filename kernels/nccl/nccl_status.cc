#include "kernels/nccl/nccl_status.h"

#include "absl/strings/str_cat.h"

namespace tensorkv {
namespace {

absl::string_view NameOf(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "ncclSuccess";
    case ncclUnhandledCudaError:
      return "ncclUnhandledCudaError";
    case ncclSystemError:
      return "ncclSystemError";
    case ncclInternalError:
      return "ncclInternalError";
    case ncclInvalidArgument:
      return "ncclInvalidArgument";
    case ncclInvalidUsage:
      return "ncclInvalidUsage";
    case ncclRemoteError:
      return "ncclRemoteError";
    case ncclInProgress:
      return "ncclInProgress";
    default:
      return "an error that this build does not know";
  }
}

absl::StatusCode CodeOf(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return absl::StatusCode::kOk;
    // A socket of another process, most of all.
    case ncclSystemError:
    case ncclRemoteError:
      return absl::StatusCode::kUnavailable;
    case ncclInProgress:
      return absl::StatusCode::kDeadlineExceeded;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status StatusOfNccl(ncclResult_t result, absl::string_view call,
                          absl::string_view detail) {
  if (result == ncclSuccess) return absl::OkStatus();
  return absl::Status(
      CodeOf(result),
      absl::StrCat(call, ": ", NameOf(result),
                   detail.empty() ? "" : absl::StrCat(" (", detail, ")")));
}

}  // namespace tensorkv
