#include "tests/testing/tensor_values.h"

#include <cstring>
#include <utility>

#include "tensor/float_formats.h"

namespace tensorkv::testing {
namespace {

template <typename T>
double Read(const char* bytes) {
  T element;
  std::memcpy(&element, bytes, sizeof(element));
  return static_cast<double>(element);
}

template <typename T, typename Convert>
double Read(const char* bytes, Convert convert) {
  T bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return convert(bits);
}

double ReadElement(DType dtype, const char* bytes) {
  switch (dtype) {
    case DType::kF32:
      return Read<float>(bytes);
    case DType::kF64:
      return Read<double>(bytes);
    case DType::kF16:
      return Read<uint16_t>(bytes, F16ToF32);
    case DType::kBF16:
      return Read<uint16_t>(bytes, BF16ToF32);
    case DType::kF8E4M3FN:
      return Read<uint8_t>(bytes, F8E4M3ToF32);
    case DType::kF8E5M2:
      return Read<uint8_t>(bytes, F8E5M2ToF32);
    case DType::kI8:
      return Read<int8_t>(bytes);
    case DType::kU8:
    case DType::kBool:
      return Read<uint8_t>(bytes);
    case DType::kI16:
      return Read<int16_t>(bytes);
    case DType::kI32:
      return Read<int32_t>(bytes);
    case DType::kI64:
      return Read<int64_t>(bytes);
    case DType::kU16:
      return Read<uint16_t>(bytes);
    case DType::kU32:
      return Read<uint32_t>(bytes);
    case DType::kU64:
      return Read<uint64_t>(bytes);
    case DType::kUnknown:
      break;
  }
  return 0;
}

}  // namespace

Tensor Full(Shape shape, double value, DType dtype) {
  return Tensor::Filled(dtype, std::move(shape), value).value();
}

Tensor TensorOf(Shape shape, const std::vector<double>& elements, DType dtype) {
  Tensor tensor = Tensor::Allocate(dtype, std::move(shape)).value();
  char* to = tensor.mutable_data();
  for (double element : elements) {
    const Tensor scalar = Full(Shape(), element, dtype);
    std::memcpy(to, scalar.data(), SizeOf(dtype));
    to += SizeOf(dtype);
  }
  return tensor;
}

Tensor Vector(const std::vector<double>& elements, DType dtype) {
  return TensorOf({static_cast<int64_t>(elements.size())}, elements, dtype);
}

std::vector<double> ElementsOf(const Tensor& tensor) {
  std::vector<double> elements;
  const size_t element_bytes = SizeOf(tensor.dtype());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    elements.push_back(
        ReadElement(tensor.dtype(), tensor.data() + i * element_bytes));
  }
  return elements;
}

std::string BytesOf(const Tensor& tensor) {
  if (tensor.size_bytes() == 0) return "";
  return std::string(tensor.data(), tensor.size_bytes());
}

bool IsUniform(const Tensor& tensor) {
  const int64_t element_bytes = SizeOf(tensor.dtype());
  if (tensor.size_bytes() <= element_bytes) return true;
  return std::memcmp(tensor.data(), tensor.data() + element_bytes,
                     tensor.size_bytes() - element_bytes) == 0;
}

bool IsFilled(const Tensor& tensor, double value) {
  if (tensor.num_elements() == 0 || !IsUniform(tensor)) return false;
  const Tensor expected = Full(Shape(), value, tensor.dtype());
  return std::memcmp(tensor.data(), expected.data(), expected.size_bytes()) ==
         0;
}

}  // namespace tensorkv::testing
