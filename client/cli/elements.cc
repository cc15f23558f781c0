#include "client/cli/elements.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "tensor/float_formats.h"

namespace tensorkv {
namespace {

// Tensors of a reply lie in its message, aligned as it happens to be.
template <typename T>
T Load(const char* from) {
  T element;
  std::memcpy(&element, from, sizeof(T));
  return element;
}
template <typename T>
void Store(T element, char* to) {
  std::memcpy(to, &element, sizeof(T));
}

double LoadFloat(DType dtype, const char* from) {
  switch (dtype) {
    case DType::kF64:
      return Load<double>(from);
    case DType::kF16:
      return F16ToF32(Load<uint16_t>(from));
    case DType::kBF16:
      return BF16ToF32(Load<uint16_t>(from));
    case DType::kF8E4M3FN:
      return F8E4M3ToF32(Load<uint8_t>(from));
    case DType::kF8E5M2:
      return F8E5M2ToF32(Load<uint8_t>(from));
    default:
      return Load<float>(from);
  }
}

// Rounds small floats by way of f32.
void StoreFloat(double value, DType dtype, char* to) {
  const auto f32 = static_cast<float>(value);
  switch (dtype) {
    case DType::kF64:
      return Store(value, to);
    case DType::kF16:
      return Store(F32ToF16(f32), to);
    case DType::kBF16:
      return Store(F32ToBF16(f32), to);
    case DType::kF8E4M3FN:
      return Store(F32ToF8E4M3(f32), to);
    case DType::kF8E5M2:
      return Store(F32ToF8E5M2(f32), to);
    default:
      return Store(f32, to);
  }
}

double RoundedTo(DType dtype, double value) {
  char element[sizeof(double)];
  StoreFloat(value, dtype, element);
  return LoadFloat(dtype, element);
}

const char* AddressOf(const Tensor& tensor, int64_t index) {
  return tensor.data() + index * SizeOf(tensor.dtype());
}

// A bool is 0 or 1, and a u64 from 2^63 on is negative, less 2^64.
int64_t IntegerAt(const Tensor& tensor, int64_t index) {
  const char* const from = AddressOf(tensor, index);
  switch (tensor.dtype()) {
    case DType::kU8:
      return Load<uint8_t>(from);
    case DType::kI16:
      return Load<int16_t>(from);
    case DType::kI32:
      return Load<int32_t>(from);
    case DType::kU16:
      return Load<uint16_t>(from);
    case DType::kU32:
      return Load<uint32_t>(from);
    case DType::kI64:
    case DType::kU64:
      return Load<int64_t>(from);
    case DType::kBool:
      return Load<uint8_t>(from) != 0;
    default:
      return Load<int8_t>(from);
  }
}

// Enough for any f32, and so for any smaller float.
constexpr int kMaxPrecision = 8;

// Returns the number with the fewest digits that rounds to `value`, one of
// `dtype`.
double WithFewestDigits(double value, DType dtype) {
  for (int precision = 0; precision < kMaxPrecision; ++precision) {
    const double candidate =
        std::strtod(absl::StrFormat("%.*e", precision, value).c_str(), nullptr);
    if (RoundedTo(dtype, candidate) == value) return candidate;
  }
  return std::strtod(absl::StrFormat("%.*e", kMaxPrecision, value).c_str(),
                     nullptr);
}

std::string FloatText(double value, DType dtype) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (dtype != DType::kF64) value = WithFewestDigits(value, dtype);
  const double magnitude = std::abs(value);
  const bool is_positional =
      magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  char buffer[64];
  const std::to_chars_result end = std::to_chars(
      buffer, buffer + sizeof(buffer), value,
      is_positional ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string ElementText(const Tensor& tensor, int64_t index) {
  const DType dtype = tensor.dtype();
  if (IsFloat(dtype)) {
    return FloatText(LoadFloat(dtype, AddressOf(tensor, index)), dtype);
  }
  const int64_t element = IntegerAt(tensor, index);
  if (dtype == DType::kBool) return element != 0 ? "true" : "false";
  return dtype == DType::kU64 ? absl::StrCat(static_cast<uint64_t>(element))
                              : absl::StrCat(element);
}

absl::StatusOr<Tensor> ConvertedTo(DType dtype, const Tensor& tensor) {
  if (tensor.dtype() == dtype) return tensor;
  if (!IsFloat(dtype) || !IsFloat(tensor.dtype())) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected floats to convert to floats, got ",
                     NameOf(tensor.dtype()), " to ", NameOf(dtype)));
  }
  ASSIGN_OR_RETURN(Tensor converted, Tensor::Allocate(dtype, tensor.shape()));
  char* to = converted.mutable_data();
  for (int64_t i = 0; i < tensor.num_elements(); ++i, to += SizeOf(dtype)) {
    StoreFloat(LoadFloat(tensor.dtype(), AddressOf(tensor, i)), dtype, to);
  }
  return converted;
}

}  // namespace tensorkv
