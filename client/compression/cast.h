// Casts contributions to narrower floats, whole or in parts.

#ifndef TENSORKV_CLIENT_COMPRESSION_CAST_H_
#define TENSORKV_CLIENT_COMPRESSION_CAST_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/send_cast.h"
#include "tensor/buffer_pool.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Writes elements [first, first + count) as cast.dtype, rounded to nearest
// even; what is too large for it becomes its largest number. cast.feedback is
// read and written at their places. Nothing else is kept.
//
// REQUIRES: floats; cast.dtype is narrower than f32.
// Errors: InvalidArgument if one of them, or of the sums, is not finite.
absl::Status CastElements(const Tensor& tensor, const SendCast& cast,
                          size_t first, size_t count, char* out);

// Returns all of them, in memory of `memory`. Errors: those of CastElements ·
// ResourceExhausted.
absl::StatusOr<Tensor> Cast(const Tensor& tensor, const SendCast& cast,
                            BufferPool& memory);

// Say that elements are not finite, and that sums with residuals are not.
absl::Status NotFiniteError();
absl::Status SumTooLargeError();

// Returns the error, which says first what key it is of.
absl::Status OfKey(absl::string_view key, const absl::Status& status);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_COMPRESSION_CAST_H_
