// Packs f32 elements as tensorkv/v1/tensor.proto has it.

#ifndef TENSORKV_CLIENT_COMPRESSION_ENCODERS_H_
#define TENSORKV_CLIENT_COMPRESSION_ENCODERS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "client/compression/compression.h"
#include "contract/encoding.h"
#include "tensor/buffer_pool.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace tensorkv {

// A contribution as PushEntry has it: with an encoding the tensor is a payload.
struct EncodedTensor {
  Tensor tensor;
  RefPtr<const Encoding> encoding;
};

// Encodes `elements`, which are those of `shape`, and leaves in them what the
// encoded tensor lacks: element - decoded element. What is random follows from
// `seed`: element i takes up or down by Philox for the counter i. The same
// arguments give the same bytes on every machine. A pure function.
//
// Elements that are all zero are a top-k of none where the encoding has a scale
// that would be zero. The payload has memory of `payloads`.
//
// REQUIRES: compression.kind is not kNone; elements are finite.
// Errors: ResourceExhausted.
absl::StatusOr<EncodedTensor> Encode(const Compression& compression,
                                     const Shape& shape, uint64_t seed,
                                     absl::Span<float> elements,
                                     BufferPool& payloads);

// The value that a code of 1-bit stands for, but for its sign.
inline constexpr float kOneBitScale = 1;

// Returns whether the encoding encodes an element without regard to those of
// other runs. Then Encode does the same as AllocateEncoded and EncodeRun of
// each run, which can be made while a run is in the nearest cache. All runs but
// the last have `num_elements` elements, which must be a multiple of 8.
bool EncodesInRuns(const Compression& compression, size_t num_elements);

// Returns what Encode returns, its payload yet to be written but for its
// padding. REQUIRES: EncodesInRuns, and `shape` has elements. Errors:
// ResourceExhausted.
absl::StatusOr<EncodedTensor> AllocateEncoded(const Compression& compression,
                                              const Shape& shape,
                                              BufferPool& payloads);

// Writes the part of the payload that is of `run`, the elements from `first`
// on, and leaves in them what it lacks.
void EncodeRun(const Compression& compression, size_t first,
               absl::Span<float> run, EncodedTensor& encoded);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_COMPRESSION_ENCODERS_H_
