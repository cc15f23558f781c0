// The parts of a stream, which carry all of its bulk, without the generated
// code. InitChunk, PushChunk and PullChunk have them in the same field, so one
// form serves all three. Manifests are rare: proto_codec.h translates them.
//
// Pure functions, thread-safe.

#ifndef TENSORKV_CONTRACT_STREAM_CODEC_H_
#define TENSORKV_CONTRACT_STREAM_CODEC_H_

#include <cstdint>
#include <optional>

#include "contract/encoded_message.h"
#include "contract/payload_reader.h"
#include "contract/stripe_range.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "tensor/tensor.h"

namespace tensorkv {

// What a chunk takes besides its part's bytes, at most.
inline constexpr uint64_t kPartOverheadBytes = 64;

// A chunk with the bytes that `part` names of an entry whose bytes from
// `tensor_offset` on are `tensor`; part.entry is passed on as it is. Small
// parts are copied, large ones are referenced.
// REQUIRES: the part lies within the tensor, which has host memory.
EncodedMessage EncodePart(const PartRange& part, const Tensor& tensor,
                          uint64_t tensor_offset = 0);

// A part as it lies in an encoded chunk.
struct EncodedPart {
  PartRange part;
  PayloadRange data;  // of part.size_bytes
};

// Where the bytes are in the chunk that is the first `message_bytes` of `in`.
// Reads the stream only up to them; CopyRange copies them from a second one.
// Returns nullopt for a manifest and for everything that is not in the form
// that writers usually give a part; the generated code decides then.
std::optional<EncodedPart> ReadPart(
    google::protobuf::io::ZeroCopyInputStream* in, uint64_t message_bytes);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_STREAM_CODEC_H_
