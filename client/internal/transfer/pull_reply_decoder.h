// Decodes pulled values from the bytes of one message.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_PULL_REPLY_DECODER_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_PULL_REPLY_DECODER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/destination.h"
#include "contract/requests.h"
#include "grpcpp/support/byte_buffer.h"
#include "tensor/buffer_pool.h"

namespace tensorkv {

// Reads a PullResponse or PushPullResponse, which it empties. The elements are
// copied once, into `destinations` if all fit, else into aligned memory from
// `pool`. Where there is a ticket, the tensors get that memory, and nobody has
// written there. Thread-safe.
// Errors: Internal (malformed) · ResourceExhausted (no memory).
absl::StatusOr<PullReply> DecodePullReply(
    grpc::ByteBuffer* bytes, uint32_t max_entries, BufferPool& pool,
    absl::Span<const Destination> destinations = {});

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_PULL_REPLY_DECODER_H_
