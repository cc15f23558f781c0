#include "tests/testing/host_update.h"

#include "kernels/cuda/accumulate_types.h"
#include "kernels/cuda/update_elements.h"
#include "kernels/op_types.h"

namespace tensorkv::testing {
namespace {

template <typename Op, typename T>
void RunChunks(const UpdateWork& work) {
  for (uint32_t chunk = 0; chunk < work.num_chunks; ++chunk) {
    for (uint32_t thread = 0; thread < kThreadsPerBlock; ++thread) {
      UpdateChunk<Op, T>(work, chunk, thread);
    }
  }
}

}  // namespace

void RunUpdateOnHost(const UpdateLaunch& launch) {
  VisitAccumulateType(launch.accumulate_type, [&](auto type) {
    using T = typename decltype(type)::T;
    VisitOpType<T>(launch.rule, [&](auto op) {
      RunChunks<typename decltype(op)::Op, T>(launch.work);
    });
  });
}

}  // namespace tensorkv::testing
