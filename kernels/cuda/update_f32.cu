#include "kernels/cuda/update_kernel.cuh"

namespace tensorkv {

template cudaError_t LaunchUpdate<float>(RuleKind, const UpdateWork&, unsigned,
                                         cudaStream_t);

template cudaError_t LoadUpdate<float>(RuleKind);

}  // namespace tensorkv
