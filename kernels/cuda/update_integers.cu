#include "kernels/cuda/update_kernel.cuh"

namespace tensorkv {

template cudaError_t LaunchUpdate<int8_t>(const UpdateLaunch&, unsigned,
                                          cudaStream_t);
template cudaError_t LaunchUpdate<uint8_t>(const UpdateLaunch&, unsigned,
                                           cudaStream_t);
template cudaError_t LaunchUpdate<int16_t>(const UpdateLaunch&, unsigned,
                                           cudaStream_t);
template cudaError_t LaunchUpdate<int32_t>(const UpdateLaunch&, unsigned,
                                           cudaStream_t);
template cudaError_t LaunchUpdate<int64_t>(const UpdateLaunch&, unsigned,
                                           cudaStream_t);
template cudaError_t LaunchUpdate<ops::Bool>(const UpdateLaunch&, unsigned,
                                             cudaStream_t);

template cudaError_t LoadUpdate<int8_t>(RuleKind);
template cudaError_t LoadUpdate<uint8_t>(RuleKind);
template cudaError_t LoadUpdate<int16_t>(RuleKind);
template cudaError_t LoadUpdate<int32_t>(RuleKind);
template cudaError_t LoadUpdate<int64_t>(RuleKind);
template cudaError_t LoadUpdate<ops::Bool>(RuleKind);

}  // namespace tensorkv
