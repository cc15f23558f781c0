#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/ref_counted.h"
#include "base/status_macros.h"
#include "tensor/bool_elements.h"
#include "tensor/buffer.h"
#include "tests/contract/generated/fields.h"
#include "tests/contract/generated_codec.h"

namespace tensorkv {
namespace {

absl::Status CheckLength(DType dtype, const Shape& shape, size_t actual) {
  ASSIGN_OR_RETURN(const int64_t expected, SizeInBytes(dtype, shape));
  if (actual == static_cast<size_t>(expected)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensor: expected ", expected, " bytes for ",
                   Description(dtype, shape), ", got ", actual));
}

bool IsAligned(const std::string& data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data.data()) % SizeOf(dtype) == 0;
}

}  // namespace

absl::StatusOr<Tensor> DecodeWithData(v1::Tensor& proto) {
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(proto.dtype()));
  ASSIGN_OR_RETURN(Shape shape, DecodeShape(proto.shape()));
  RETURN_IF_ERROR(CheckLength(dtype, shape, proto.data().size()));
  RETURN_IF_ERROR(CheckBoolElements(dtype, proto.data()));
  // On the heap, as short strings move their bytes with them.
  auto data = std::make_unique<std::string>(std::move(*proto.mutable_data()));
  if (!IsAligned(*data, dtype)) {
    return Tensor::CopyOf(dtype, std::move(shape), data->data());
  }
  const std::string& bytes = *data;
  auto buffer = MakeRefCounted<AdoptedBuffer>(
      bytes.data(), bytes.size(), [keep_alive = std::move(data)] {});
  return Tensor::FromBuffer(dtype, std::move(shape), std::move(buffer));
}

absl::StatusOr<Tensor> DecodeWithoutData(v1::Tensor& proto) {
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(proto.dtype()));
  ASSIGN_OR_RETURN(Shape shape, DecodeShape(proto.shape()));
  if (!proto.data().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor: expected no data in a manifest, got ",
                     proto.data().size(), " bytes"));
  }
  return Tensor::WithoutData(dtype, std::move(shape));
}

void EncodeWithoutData(const Tensor& tensor, v1::Tensor* proto) {
  proto->set_dtype(static_cast<v1::DType>(tensor.dtype()));
  EncodeShape(tensor.shape(), proto->mutable_shape());
}

void EncodeWithData(const Tensor& tensor, v1::Tensor* proto) {
  EncodeWithoutData(tensor, proto);
  if (tensor.size_bytes() == 0) return;
  // The generated message owns its bytes, hence the copy.
  proto->set_data(tensor.data(), tensor.size_bytes());
}

absl::StatusOr<Tensor> FromProto(v1::Tensor&& proto) {
  return DecodeWithData(proto);
}

void ToProto(const Tensor& tensor, v1::Tensor* proto) {
  EncodeWithData(tensor, proto);
}

}  // namespace tensorkv
