// Sends tensors as the parts of a stream.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_PART_SENDER_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_PART_SENDER_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/internal/transfer/stripe_stream.h"
#include "contract/encoded_message.h"
#include "contract/stripe_range.h"
#include "grpcpp/support/byte_buffer.h"

namespace tensorkv {

// Returns the most bytes that a part of the entry may have.
using PartLimit = absl::FunctionRef<uint64_t(size_t entry)>;
// Returns the message of a part.
using PartEncoder =
    absl::FunctionRef<absl::StatusOr<EncodedMessage>(const PartRange& part)>;

// Writes `manifest`, then the parts that `cursor` gives, each within `limit`;
// the last message is marked as the last. A part is encoded just before it is
// written. Returns when all have been handed over, not when they have arrived.
// Errors: Internal if the stream ended before · those of `encode`.
absl::Status SendParts(StripeStream& stream, const grpc::ByteBuffer& manifest,
                       PartCursor cursor, PartLimit limit, PartEncoder encode);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_PART_SENDER_H_
