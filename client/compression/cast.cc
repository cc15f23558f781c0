#include "client/compression/cast.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_from.h"
#include "base/status_macros.h"
#include "client/compression/element_runs.h"
#include "client/compression/encoder_loops.h"

namespace tensorkv {

absl::Status CastElements(const Tensor& tensor, const SendCast& cast,
                          size_t first, size_t count, char* out) {
  const EncoderLoops& loops = SupportedEncoderLoops();
  const auto format = static_cast<int>(FormatOf(cast.dtype));
  CastFeedback* const feedback = cast.feedback;
  bool are_finite = true;
  const auto cast_run = [&](const float* run, size_t at, size_t size) {
    char* const to = out + (at - first) * SizeOf(cast.dtype);
    if (feedback == nullptr) return loops.cast[format](run, size, to);
    if (loops.cast_sum[format](run, feedback->before + at, size,
                               feedback->after + at, to)) {
      return true;
    }
    // Only an error needs to know which of both it was.
    are_finite &= loops.cast[format](run, size, to);
    return false;
  };
  if (AllRunsOf(tensor, first, count, cast_run)) {
    if (feedback != nullptr) feedback->done.Add(first, first + count);
    return absl::OkStatus();
  }
  if (feedback == nullptr || !are_finite) return NotFiniteError();
  feedback->forgets_before = true;
  return SumTooLargeError();
}

absl::StatusOr<Tensor> Cast(const Tensor& tensor, const SendCast& cast,
                            BufferPool& memory) {
  ASSIGN_OR_RETURN(Tensor narrow,
                   Tensor::WithoutData(cast.dtype, tensor.shape()));
  ASSIGN_OR_RETURN(RefPtr<Buffer> buffer, memory.Allocate(narrow.size_bytes()));
  narrow.SetBuffer(std::move(buffer), 0);
  const auto count = static_cast<size_t>(tensor.num_elements());
  if (count == 0) return narrow;
  RETURN_IF_ERROR(
      CastElements(tensor, cast, /*first=*/0, count, narrow.mutable_data()));
  return narrow;
}

absl::Status NotFiniteError() {
  return absl::InvalidArgumentError(
      "compression: expected finite elements, got NaN or infinity");
}

absl::Status SumTooLargeError() {
  return absl::InvalidArgumentError(
      "compression: expected a sum with what was left out before that is "
      "finite in f32, got infinity; what was left out is forgotten");
}

absl::Status OfKey(absl::string_view key, const absl::Status& status) {
  return ErrorFrom(absl::StrCat("key \"", key, "\""), status);
}

}  // namespace tensorkv
