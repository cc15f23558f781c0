// Choices that only a GPU can judge: those that servers have made, and others.

#ifndef TENSORKV_BENCH_GPU_VARIANTS_H_
#define TENSORKV_BENCH_GPU_VARIANTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/backend.h"

namespace tensorkv::bench::gpu {

// Returns the names of the variants, each of which differs in one thing from
// what servers have; docs/gpu.md says in what. None where the build has no
// CUDA.
std::vector<std::string> VariantNames();

// Opens a backend on that GPU, with up to `quota_bytes` of its memory, that is
// as servers have it where `variant` is empty.
// Errors: InvalidArgument (no such variant) · those of OpenCudaBackend.
absl::StatusOr<std::unique_ptr<Backend>> OpenVariant(int gpu,
                                                     absl::string_view variant,
                                                     uint64_t quota_bytes);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_VARIANTS_H_
