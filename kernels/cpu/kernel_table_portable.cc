#include "kernels/cpu/element_kernels.inc"

namespace tensorkv {
namespace {

constexpr KernelTable kKernels = MakeKernels("portable");

}  // namespace

const KernelTable* PortableKernels() { return &kKernels; }

}  // namespace tensorkv
