#include "tensor/elements.h"

#include "absl/strings/string_view.h"
#include "tensor/bool_elements.h"

namespace tensorkv {

absl::Status CheckElements(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() != dtype) {
    return absl::InvalidArgumentError(absl::StrCat(
        "elements: expected ", NameOf(dtype), ", got ", tensor.Description()));
  }
  if (tensor.num_elements() == 0) return absl::OkStatus();
  if (!tensor.has_data()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "elements: expected ", tensor.Description(), " with data, got none"));
  }
  if (reinterpret_cast<uintptr_t>(tensor.data()) % SizeOf(dtype) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "elements: expected memory aligned to ", SizeOf(dtype), " bytes"));
  }
  return CheckBoolElements(
      dtype, absl::string_view(tensor.data(), tensor.size_bytes()));
}

}  // namespace tensorkv
