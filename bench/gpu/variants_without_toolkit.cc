#include "absl/status/status.h"
#include "bench/gpu/variants.h"

namespace tensorkv::bench::gpu {

std::vector<std::string> VariantNames() { return {}; }

absl::StatusOr<std::unique_ptr<Backend>> OpenVariant(
    int /*gpu*/, absl::string_view /*variant*/, uint64_t /*quota_bytes*/) {
  return absl::FailedPreconditionError("this build has no CUDA");
}

}  // namespace tensorkv::bench::gpu
