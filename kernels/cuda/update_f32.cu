#include "kernels/cuda/update_kernel.cuh"

namespace tensorkv {

template cudaError_t LaunchUpdate<float>(const UpdateLaunch&, unsigned,
                                         cudaStream_t);

template cudaError_t LoadUpdate<float>(RuleKind);

}  // namespace tensorkv
