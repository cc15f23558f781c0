#if defined(__AVX2__)

#include "kernels/cpu/element_kernels.inc"

namespace tensorkv {
namespace {

constexpr KernelTable kKernels = MakeKernels("avx2");

}  // namespace

const KernelTable* Avx2Kernels() { return &kKernels; }

}  // namespace tensorkv

#else

#include "kernels/cpu/kernel_table.h"

namespace tensorkv {

const KernelTable* Avx2Kernels() { return nullptr; }

}  // namespace tensorkv

#endif
