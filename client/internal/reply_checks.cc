#include "client/internal/reply_checks.h"

#include "contract/proto_codec.h"

namespace tensorkv {

absl::Status CheckFields(const ListReply& reply) {
  return CheckShapes(reply.keys());
}

absl::Status CheckFields(const StatReply& reply) {
  return CheckShapes(reply.keys());
}

}  // namespace tensorkv
