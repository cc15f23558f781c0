// Reads the first message of a stream.

#ifndef TENSORKV_SERVICE_RPC_STREAM_REQUEST_H_
#define TENSORKV_SERVICE_RPC_STREAM_REQUEST_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ref_counted.h"
#include "contract/method.h"
#include "contract/requests.h"
#include "grpcpp/support/byte_buffer.h"
#include "service/rpc/message_limits.h"

namespace tensorkv {

// The call that a stream carries, or a stripe of it. Tensors have no data yet,
// but ids of rows do.
using StreamedRequest =
    std::variant<InitRequest, SetStateRequest, PushRequest, PushPullRequest>;

struct StreamRequest {
  StreamedRequest request;
  Stripe stripe;
  // The digest of what a call's stripes have in common; an only stripe has
  // none.
  std::string manifest;
};

// Asks for a stripe of the values of a ticket.
struct TicketRequest {
  std::string ticket;
  Stripe stripe;
  // The most payload of a part; 0 leaves it to the server.
  uint64_t max_part_bytes = 0;
};

// Decodes the message of a PullStream, which it empties. Errors:
// InvalidArgument (no such message; a stripe that is none) · ResourceExhausted
// (over the limits). Pure function, thread-safe.
absl::StatusOr<TicketRequest> DecodeTicketRequest(const MessageLimits& limits,
                                                  grpc::ByteBuffer* bytes);

// Decodes the first message of a stream of `method`, no PullStream, which it
// empties.
// Errors: InvalidArgument (no such message; a part, where the manifest should
// be; a stripe that is none or names no group; a PushPull in a PushStream, or
// another call in a PushPullStream) · those of ReadCall · ResourceExhausted
// (over the limits). Pure function, thread-safe.
absl::StatusOr<StreamRequest> DecodeStreamRequest(Method method,
                                                  const MessageLimits& limits,
                                                  grpc::ByteBuffer* bytes);

// Returns every entry's tensor, in their order. Points into
// `request`.
std::vector<Tensor*> TensorsOf(StreamedRequest& request);

// Returns every entry's ids of rows, where it has some. Points into `request`.
std::vector<RefPtr<const RowIds>*> RowIdsOf(StreamedRequest& request);
// Returns how many bytes all ids of rows have together.
uint64_t RowIdBytes(StreamedRequest& request);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_STREAM_REQUEST_H_
