// What a build without the CUDA toolkit has.

#include "absl/status/status.h"
#include "bench/gpu/runtime.h"
#include "bench/gpu/variants.h"

namespace tensorkv::bench::gpu {

absl::StatusOr<CudaRuntime> OpenCudaRuntime(int /*ordinal*/) {
  return absl::FailedPreconditionError("this build has no CUDA");
}

std::vector<std::string> VariantNames() { return {}; }

absl::StatusOr<std::unique_ptr<Backend>> OpenVariant(
    int /*gpu*/, absl::string_view /*variant*/, uint64_t /*quota_bytes*/) {
  return absl::FailedPreconditionError("this build has no CUDA");
}

}  // namespace tensorkv::bench::gpu
