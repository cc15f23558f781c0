// Replies to pushes, out of the bytes of their messages.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_PUSH_REPLY_DECODER_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_PUSH_REPLY_DECODER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "contract/requests.h"
#include "grpcpp/support/byte_buffer.h"

namespace tensorkv {

// Reads a PushResponse with at most `max_results` results out of `bytes`, which
// it may empty.
// Errors: Internal, since the server sent them.
absl::StatusOr<PushReply> DecodePushReply(grpc::ByteBuffer* bytes,
                                          uint32_t max_results);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_PUSH_REPLY_DECODER_H_
