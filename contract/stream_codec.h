// The parts of a stream, which carry all of its bulk, without the generated
// code. InitChunk, PushChunk and PullChunk have them in the same field, so one
// form serves all three. Manifests are rare: the generated code reads them.
//
// Pure functions, thread-safe.

#ifndef TENSORKV_CONTRACT_STREAM_CODEC_H_
#define TENSORKV_CONTRACT_STREAM_CODEC_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "contract/data_requests.h"
#include "contract/encoded_message.h"
#include "contract/payload_reader.h"
#include "contract/stripe_range.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Bounds what a chunk takes besides its part's bytes.
inline constexpr uint64_t kPartOverheadBytes = 64;

// Encodes a chunk with the bytes of an entry that `part` names. `tensor` has
// the bytes of that entry from `tensor_offset` on; part.entry is passed on as
// it is. Small parts are copied, large ones are referenced.
// REQUIRES: the part lies within the tensor, which has host memory.
EncodedMessage EncodePart(const PartRange& part, const Tensor& tensor,
                          uint64_t tensor_offset = 0);

// Encodes a chunk with a part of a PullStream: the bytes that `ranges` name of
// `values`, which follow one another. REQUIRES: there is a range; the values
// have host memory.
EncodedMessage EncodeRun(absl::Span<const PartRange> ranges,
                         absl::Span<const Value> values);

// A part as it lies in an encoded chunk.
struct EncodedPart {
  PartRange part;
  PayloadRange data;  // of part.size_bytes
};

// Reads the chunk that is the first `message_bytes` of `in`, and returns where
// the part's bytes are. Reads `in` only up to these bytes; CopyRange copies
// them from a second stream over the chunk. Returns nullopt for a manifest and
// for everything that is not in the form that writers usually give a part; the
// generated code decides then.
std::optional<EncodedPart> ReadPart(
    google::protobuf::io::ZeroCopyInputStream* in, uint64_t message_bytes);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_STREAM_CODEC_H_
