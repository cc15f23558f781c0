#include "tensor/elements.h"

#include "absl/strings/string_view.h"
#include "tensor/bool_elements.h"

namespace tensorkv {
namespace {

absl::Status CheckMemory(const Tensor& tensor, DType dtype) {
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
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckElements(const Tensor& tensor, DType dtype) {
  absl::Status status = CheckMemory(tensor, dtype);
  if (!status.ok() || !tensor.has_data()) return status;
  return CheckBoolElements(
      dtype, absl::string_view(tensor.data(), tensor.size_bytes()));
}

absl::Status CheckMutableElements(const Tensor& tensor, DType dtype) {
  absl::Status status = CheckMemory(tensor, dtype);
  if (!status.ok() || !tensor.has_data()) return status;
  if (!tensor.buffer()->IsUnique()) {
    return absl::FailedPreconditionError(
        absl::StrCat("elements: expected ", tensor.Description(),
                     " in a buffer with one owner, got one that is shared"));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv
