#include "kernels/nccl/nccl_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

// 2.23.0: earlier ones connect and launch on the thread that calls, so that a
// call may block in spite of its communicator.
constexpr int kMinVersion = 22300;

template <typename Function>
absl::Status Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("NCCL: expected ", name, ", got a library without it"));
}

}  // namespace

absl::StatusOr<NcclFunctions> LoadNccl(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("NCCL cannot be loaded: ", dlerror()));
  }
  NcclFunctions nccl;
  RETURN_IF_ERROR(Find(library, "ncclGetVersion", nccl.get_version));
  RETURN_IF_ERROR(Find(library, "ncclGetUniqueId", nccl.get_unique_id));
  RETURN_IF_ERROR(
      Find(library, "ncclCommInitRankConfig", nccl.comm_init_rank_config));
  RETURN_IF_ERROR(Find(library, "ncclCommAbort", nccl.comm_abort));
  RETURN_IF_ERROR(
      Find(library, "ncclCommGetAsyncError", nccl.comm_get_async_error));
  RETURN_IF_ERROR(Find(library, "ncclGetLastError", nccl.get_last_error));
  RETURN_IF_ERROR(Find(library, "ncclGroupStart", nccl.group_start));
  RETURN_IF_ERROR(Find(library, "ncclGroupEnd", nccl.group_end));
  RETURN_IF_ERROR(Find(library, "ncclSend", nccl.send));
  RETURN_IF_ERROR(Find(library, "ncclRecv", nccl.recv));
  if (nccl.get_version(&nccl.version) != ncclSuccess ||
      nccl.version < kMinVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("NCCL: expected at least version ", kMinVersion, ", got ",
                     nccl.version));
  }
  return nccl;
}

}  // namespace tensorkv
