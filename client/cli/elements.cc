#include "client/cli/elements.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "tensor/float_formats.h"

namespace tensorkv {
namespace {

// Tensors of a reply lie in its message, aligned as it happens to be.
template <typename T>
T Load(const Tensor& tensor, int64_t index) {
  T element;
  std::memcpy(&element, tensor.data() + index * sizeof(T), sizeof(T));
  return element;
}

}  // namespace

double FloatAt(const Tensor& tensor, int64_t index) {
  switch (tensor.dtype()) {
    case DType::kF64:
      return Load<double>(tensor, index);
    case DType::kF16:
      return F16ToF32(Load<uint16_t>(tensor, index));
    case DType::kBF16:
      return BF16ToF32(Load<uint16_t>(tensor, index));
    case DType::kF8E4M3FN:
      return F8E4M3ToF32(Load<uint8_t>(tensor, index));
    case DType::kF8E5M2:
      return F8E5M2ToF32(Load<uint8_t>(tensor, index));
    default:
      return Load<float>(tensor, index);
  }
}

int64_t IntegerAt(const Tensor& tensor, int64_t index) {
  switch (tensor.dtype()) {
    case DType::kU8:
      return Load<uint8_t>(tensor, index);
    case DType::kI16:
      return Load<int16_t>(tensor, index);
    case DType::kI32:
      return Load<int32_t>(tensor, index);
    case DType::kU16:
      return Load<uint16_t>(tensor, index);
    case DType::kU32:
      return Load<uint32_t>(tensor, index);
    case DType::kI64:
    case DType::kU64:
      return Load<int64_t>(tensor, index);
    case DType::kBool:
      return Load<uint8_t>(tensor, index) != 0;
    default:
      return Load<int8_t>(tensor, index);
  }
}

std::string IntegerText(const Tensor& tensor, int64_t index) {
  const int64_t element = IntegerAt(tensor, index);
  return tensor.dtype() == DType::kU64
             ? absl::StrCat(static_cast<uint64_t>(element))
             : absl::StrCat(element);
}

double RoundedTo(DType dtype, double value) {
  const auto f32 = static_cast<float>(value);
  switch (dtype) {
    case DType::kF64:
      return value;
    case DType::kF16:
      return F16ToF32(F32ToF16(f32));
    case DType::kBF16:
      return BF16ToF32(F32ToBF16(f32));
    case DType::kF8E4M3FN:
      return F8E4M3ToF32(F32ToF8E4M3(f32));
    case DType::kF8E5M2:
      return F8E5M2ToF32(F32ToF8E5M2(f32));
    default:
      return f32;
  }
}

}  // namespace tensorkv
