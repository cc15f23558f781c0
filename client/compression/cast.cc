#include "client/compression/cast.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_from.h"
#include "base/status_macros.h"
#include "client/compression/element_runs.h"
#include "client/compression/encoder_loops.h"

namespace tensorkv {

absl::Status CastElements(const Tensor& tensor, DType dtype, size_t first,
                          size_t count, char* out) {
  const auto cast =
      SupportedEncoderLoops().cast[static_cast<int>(FormatOf(dtype))];
  const auto cast_run = [&](const float* run, size_t at, size_t size) {
    return cast(run, size, out + (at - first) * SizeOf(dtype));
  };
  if (AllRunsOf(tensor, first, count, cast_run)) return absl::OkStatus();
  return NotFiniteError();
}

absl::StatusOr<Tensor> Cast(const Tensor& tensor, DType dtype,
                            BufferPool& memory) {
  ASSIGN_OR_RETURN(Tensor cast, Tensor::WithoutData(dtype, tensor.shape()));
  ASSIGN_OR_RETURN(RefPtr<Buffer> buffer, memory.Allocate(cast.size_bytes()));
  cast.SetBuffer(std::move(buffer), 0);
  const auto count = static_cast<size_t>(tensor.num_elements());
  if (count == 0) return cast;
  RETURN_IF_ERROR(
      CastElements(tensor, dtype, /*first=*/0, count, cast.mutable_data()));
  return cast;
}

absl::Status NotFiniteError() {
  return absl::InvalidArgumentError(
      "compression: expected finite elements, got NaN or infinity");
}

absl::Status OfKey(absl::string_view key, const absl::Status& status) {
  return ErrorFrom(absl::StrCat("key \"", key, "\""), status);
}

}  // namespace tensorkv
