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

// Writes the elements [first, first + count) of `tensor` to `out` as
// cast.dtype, rounded to nearest even; what is too large for that dtype becomes
// its largest number. Reads and writes the same elements of cast.feedback, if
// it is set.
//
// REQUIRES: `tensor` has floats; cast.dtype is a float narrower than f32.
// Errors: InvalidArgument if an element, or a sum with its feedback, is not
// finite.
absl::Status CastElements(const Tensor& tensor, const SendCast& cast,
                          size_t first, size_t count, char* out);

// Returns the whole tensor cast so, in memory from `memory`. Errors: those of
// CastElements · ResourceExhausted.
absl::StatusOr<Tensor> Cast(const Tensor& tensor, const SendCast& cast,
                            BufferPool& memory);

// Return the error that elements are not finite, and the error that their sums
// with residuals are not.
absl::Status NotFiniteError();
absl::Status SumTooLargeError();

// Returns the error with the key in front of its message.
absl::Status OfKey(absl::string_view key, const absl::Status& status);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_COMPRESSION_CAST_H_
