#include "client/internal/transfer/push_reply_decoder.h"

#include <utility>

#include "base/status_macros.h"
#include "client/internal/transfer/message_bytes.h"
#include "contract/payload_reader.h"
#include "tensorkv/v1/data.pb.h"

namespace tensorkv {

absl::StatusOr<PushReply> DecodePushReply(grpc::ByteBuffer* bytes,
                                          uint32_t max_results) {
  ASSIGN_OR_RETURN(
      Decoded<PushReply> decoded,
      (ReadAnyForm<v1::PushResponse, PushReply>(bytes, max_results)));
  return std::move(decoded.call);
}

}  // namespace tensorkv
