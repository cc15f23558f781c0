// Casts contributions to narrower floats, whole or in parts.

#ifndef TENSORKV_CLIENT_COMPRESSION_CAST_H_
#define TENSORKV_CLIENT_COMPRESSION_CAST_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/buffer_pool.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Writes elements [first, first + count) as `dtype`, rounded to nearest even;
// what is too large for it becomes its largest number. Pure functions.
//
// REQUIRES: floats; `dtype` is narrower than f32.
// Errors: InvalidArgument if one of them is not finite.
absl::Status CastElements(const Tensor& tensor, DType dtype, size_t first,
                          size_t count, char* out);

// All of them, in memory of `memory`.
// Errors: those of CastElements · ResourceExhausted.
absl::StatusOr<Tensor> Cast(const Tensor& tensor, DType dtype,
                            BufferPool& memory);

// That elements are not finite.
absl::Status NotFiniteError();

// The error, which says first what key it is of.
absl::Status OfKey(absl::string_view key, const absl::Status& status);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_COMPRESSION_CAST_H_
