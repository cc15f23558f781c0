#if defined(__AVX512F__)

#include "kernels/cpu/element_kernels.inc"

namespace tensorkv {
namespace {

constexpr KernelTable kKernels = MakeKernels("avx512");

}  // namespace

const KernelTable* Avx512Kernels() { return &kKernels; }

}  // namespace tensorkv

#else

#include "kernels/cpu/kernel_table.h"

namespace tensorkv {

const KernelTable* Avx512Kernels() { return nullptr; }

}  // namespace tensorkv

#endif
