#include <type_traits>

#include "bench/gpu/variant_kernels.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/update_kernel.cuh"

namespace tensorkv::bench::gpu {
namespace {

template <int elements, bool loads_early, bool copies_entry = false>
struct Shape {
  using Element = float;
  static constexpr int kElements = elements;
  static constexpr bool kLoadsEarly = loads_early;
  static constexpr bool kCopiesEntry = copies_entry;
};
using UsualShape = PackShape<float>;

template <typename Op>
inline constexpr bool kIsMeasured = std::is_same_v<Op, ops::Adam<float>> ||
                                    std::is_same_v<Op, ops::Sgd<float>> ||
                                    std::is_same_v<Op, ops::SgdMomentum<float>>;

template <typename ItsShape, typename Parameters = UpdateParameters>
cudaError_t Launch(const UpdateLaunch& launch, unsigned num_blocks,
                   cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  bool is_measured = false;
  if (launch.accumulate_type == ElementType::kF32 &&
      launch.step == LaunchStep::kUpdate) {
    VisitOpType<float>(launch.rule, [&](auto type) {
      using Op = typename decltype(type)::Op;
      if constexpr (kIsMeasured<Op>) {
        is_measured = true;
        error =
            LaunchKernel(UpdateKernel<Op, float, false, ItsShape, Parameters>,
                         launch, num_blocks, stream);
      }
    });
  }
  return is_measured ? error : LaunchAnyUpdate(launch, num_blocks, stream);
}

}  // namespace

cudaError_t LaunchPacksOf8(const UpdateLaunch& launch, unsigned num_blocks,
                           cudaStream_t stream) {
  return Launch<Shape<8, true>>(launch, num_blocks, stream);
}

cudaError_t LaunchLateLoads(const UpdateLaunch& launch, unsigned num_blocks,
                            cudaStream_t stream) {
  return Launch<Shape<4, false>>(launch, num_blocks, stream);
}

cudaError_t LaunchPacksOf8LateLoads(const UpdateLaunch& launch,
                                    unsigned num_blocks, cudaStream_t stream) {
  return Launch<Shape<8, false>>(launch, num_blocks, stream);
}

cudaError_t LaunchEntryInRegisters(const UpdateLaunch& launch,
                                   unsigned num_blocks, cudaStream_t stream) {
  return Launch<Shape<4, true, true>>(launch, num_blocks, stream);
}

cudaError_t LaunchLargeTable(const UpdateLaunch& launch, unsigned num_blocks,
                             cudaStream_t stream) {
  return Launch<UsualShape, LargeParameters>(launch, num_blocks, stream);
}

}  // namespace tensorkv::bench::gpu
