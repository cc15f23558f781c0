// HOST_DEVICE marks functions that CPU loops and CUDA kernels both call.

#ifndef TENSORKV_KERNELS_OPS_HOST_DEVICE_H_
#define TENSORKV_KERNELS_OPS_HOST_DEVICE_H_

// On the host always inlined: the same functions are compiled for several
// instruction sets, and of an out-of-line copy the linker would keep any one,
// perhaps one that this CPU cannot run.
#if defined(__CUDACC__)
#define HOST_DEVICE __host__ __device__ __forceinline__
#else
#define HOST_DEVICE inline __attribute__((always_inline))
#endif

#endif  // TENSORKV_KERNELS_OPS_HOST_DEVICE_H_
