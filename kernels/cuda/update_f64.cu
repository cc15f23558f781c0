#include "kernels/cuda/update_kernel.cuh"

namespace tensorkv {

template cudaError_t LaunchUpdate<double>(RuleKind, const UpdateWork&, unsigned,
                                          cudaStream_t);

template cudaError_t LoadUpdate<double>(RuleKind);

}  // namespace tensorkv
