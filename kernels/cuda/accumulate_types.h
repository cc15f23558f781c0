// From the number of an accumulate type to the C++ type.

#ifndef TENSORKV_KERNELS_CUDA_ACCUMULATE_TYPES_H_
#define TENSORKV_KERNELS_CUDA_ACCUMULATE_TYPES_H_

#include <stdint.h>

#include "kernels/cuda/update_work.h"
#include "kernels/ops/arithmetic.h"

namespace tensorkv {

template <typename Type>
struct AccumulateTypeTag {
  using T = Type;
};

// Calls `visit` with the AccumulateTypeTag of `type`. Does nothing for f16,
// bf16 and f8, in which nothing is accumulated.
template <typename Visitor>
void VisitAccumulateType(ElementType type, Visitor visit) {
  switch (type) {
    case ElementType::kF32:
      return visit(AccumulateTypeTag<float>());
    case ElementType::kF64:
      return visit(AccumulateTypeTag<double>());
    case ElementType::kI8:
      return visit(AccumulateTypeTag<int8_t>());
    case ElementType::kU8:
      return visit(AccumulateTypeTag<uint8_t>());
    case ElementType::kI16:
      return visit(AccumulateTypeTag<int16_t>());
    case ElementType::kI32:
      return visit(AccumulateTypeTag<int32_t>());
    case ElementType::kI64:
      return visit(AccumulateTypeTag<int64_t>());
    case ElementType::kBool:
      return visit(AccumulateTypeTag<ops::Bool>());
    default:
      return;
  }
}

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_ACCUMULATE_TYPES_H_
