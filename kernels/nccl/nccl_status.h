// From ncclResult_t to absl::Status: the one place that knows both.

#ifndef TENSORKV_KERNELS_NCCL_NCCL_STATUS_H_
#define TENSORKV_KERNELS_NCCL_NCCL_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nccl.h"

namespace tensorkv {

// Returns OK · Unavailable (another process has ended or cannot be reached: a
// new communicator must be made) · DeadlineExceeded (it is still under way) ·
// Internal, for all others: a mistake of the caller's, or a GPU that fails. The
// message is `call`, the error's name, and `detail`, if there is any:
//
//   ncclGroupEnd of 3 peers: ncclRemoteError (Connection closed by peer)
absl::Status StatusOfNccl(ncclResult_t result, absl::string_view call,
                          absl::string_view detail = "");

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_NCCL_NCCL_STATUS_H_
