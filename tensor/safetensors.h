// The header of a .safetensors file: https://huggingface.co/docs/safetensors.

#ifndef TENSORKV_TENSOR_SAFETENSORS_H_
#define TENSORKV_TENSOR_SAFETENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace tensorkv {

// The most bytes of a header that readers take.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// One tensor of a file.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  // Where its elements begin, counted from the start of the file.
  uint64_t offset = 0;

  uint64_t size_bytes() const { return shape.num_elements() * SizeOf(dtype); }
};

// Returns the header of a file that has the elements of `entries` in this
// order, one right after the other, with the 8 bytes of its length: a multiple
// of 64 bytes. Sets the offset of each entry. REQUIRES: the names are UTF-8 and
// differ, and none is "__metadata__".
std::string SafetensorsHeader(absl::Span<SafetensorsEntry> entries);

// Returns the bytes of a file that its header takes, with the 8 bytes of its
// length. `start` is the start of the file.
// Errors: InvalidArgument if `start` has less than 8 bytes, or the header is
// larger than readers take.
absl::StatusOr<uint64_t> SafetensorsHeaderBytes(absl::string_view start);

// Returns the tensors of a file of `file_bytes` bytes that begins with `header`
// (SafetensorsHeaderBytes of it), in the order of their offsets. Tensors
// without elements that have the same offset are in the order in which the
// header names them. Leaves out the metadata.
// Errors: InvalidArgument if the header is malformed: a tensor that is named
// twice; tensors that overlap, leave a gap, or do not end with the file; a
// dtype or shape that no Tensor can have.
absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(
    absl::string_view header, uint64_t file_bytes);

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_SAFETENSORS_H_
