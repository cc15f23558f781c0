#include "kernels/cuda/update_kernel.cuh"

namespace tensorkv {

template cudaError_t LaunchUpdate<double>(const UpdateLaunch&, unsigned,
                                          cudaStream_t);

template cudaError_t LoadUpdate<double>(RuleKind);

}  // namespace tensorkv
