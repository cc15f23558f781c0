// The code of a byte for each changed element of 16 bits: how many unchanged
// ones come before it, and by which sign of one ulp it has changed.
// tensor.proto (DELTA_ENCODING_ONE_ULP) says what each byte means.

#ifndef TENSORKV_TENSOR_DELTA_ONE_ULP_CODE_H_
#define TENSORKV_TENSOR_DELTA_ONE_ULP_CODE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensor/delta/delta_scratch.h"

namespace tensorkv::one_ulp {

// Bounds, for a block of so many elements, both of the runs of bytes that its
// code has.
constexpr size_t MaxCodes(size_t num_elements) { return 3 * num_elements + 8; }
constexpr size_t MaxMagnitudes(size_t num_elements) { return 3 * num_elements; }

// The code of a block.
struct Code {
  absl::string_view codes;
  absl::string_view magnitudes;
  // Encode sets this to the number of elements that have changed.
  size_t num_changes = 0;

  size_t size() const { return codes.size() + magnitudes.size(); }
};

// Returns the code of what has changed, in memory of `scratch`.
Code Encode(const char* from, const char* to, size_t num_elements,
            DeltaScratch& scratch);

// Changes the elements at `values` as the code says. Errors: InvalidArgument
// (malformed); the elements may then be anything.
absl::Status Apply(const Code& code, char* values, size_t num_elements);

}  // namespace tensorkv::one_ulp

#endif  // TENSORKV_TENSOR_DELTA_ONE_ULP_CODE_H_
