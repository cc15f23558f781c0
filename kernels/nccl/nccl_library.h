// The NCCL of the machine, found at run time.

#ifndef TENSORKV_KERNELS_NCCL_NCCL_LIBRARY_H_
#define TENSORKV_KERNELS_NCCL_NCCL_LIBRARY_H_

#include <string>

#include "absl/status/statusor.h"
#include "nccl.h"

namespace tensorkv {

// The functions of NCCL that are used; tests have their own.
struct NcclFunctions {
  int version = 0;  // 2.23.4 is 22304
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&ncclGetLastError) get_last_error = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) recv = nullptr;
};

// Loads the library that dlopen finds by `path`, and returns its functions. It
// is never unloaded.
// Errors: FailedPrecondition: there is no such library, or it is older than
// 2.23, the first of which no call blocks.
absl::StatusOr<NcclFunctions> LoadNccl(
    const std::string& path = "libnccl.so.2");

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_NCCL_NCCL_LIBRARY_H_
