#include "client/internal/transfer/part_sender.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/grpc_bytes.h"

namespace tensorkv {
namespace {

absl::Status EndedEarly(uint64_t bytes_left) {
  return absl::InternalError(absl::StrCat("the server ended the stream while ",
                                          bytes_left,
                                          " bytes were still to be sent"));
}

}  // namespace

absl::Status SendParts(StripeStream& stream, const grpc::ByteBuffer& manifest,
                       PartCursor cursor, PartLimit limit, PartEncoder encode) {
  if (!stream.Write(manifest, cursor.is_complete())) {
    return EndedEarly(cursor.bytes_left());
  }
  while (!cursor.is_complete()) {
    const PartRange part = *cursor.Next(limit(cursor.entry()));
    ASSIGN_OR_RETURN(const EncodedMessage message, encode(part));
    if (!stream.Write(ToByteBuffer(message), cursor.is_complete())) {
      return EndedEarly(cursor.bytes_left() + part.size_bytes);
    }
  }
  return absl::OkStatus();
}

}  // namespace tensorkv
