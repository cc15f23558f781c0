// Decodes unary requests with tensors into the memory where the store keeps
// them.

#ifndef TENSORKV_SERVICE_RPC_PAYLOAD_DECODER_H_
#define TENSORKV_SERVICE_RPC_PAYLOAD_DECODER_H_

#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "contract/payload_reader.h"
#include "contract/requests.h"
#include "grpcpp/support/byte_buffer.h"
#include "service/rpc/message_limits.h"
#include "service/store/call_dispatch.h"

namespace tensorkv {

// The request of the verb that makes a call: rows are pushed by Push, and
// pulled by Pull.
template <typename Request>
using VerbRequest = std::conditional_t<
    std::is_same_v<Request, PushRowsRequest>, PushRequest,
    std::conditional_t<std::is_same_v<Request, PullRowsRequest>, PullRequest,
                       Request>>;

// Decodes requests with an entry per key, and has them admitted as soon as
// their metadata is read. The elements of tensors are copied from the received
// slices straight into memory of the namespace; those of rows and states into
// memory of their own.
//
// Thread-safe.
class PayloadDecoder {
 public:
  // `calls` outlives the decoder.
  PayloadDecoder(const CallDispatch* calls, const MessageLimits& limits)
      : calls_(*calls), limits_(limits) {}

  // Decodes a request, has it admitted, and empties `bytes`.
  // Errors: those of ReadAnyForm in message_codec.h · why the call is not
  // admitted · NotFound (namespace) · ResourceExhausted (budget).
  template <typename Request>
  absl::StatusOr<CallDispatch::Admitted<VerbRequest<Request>>> Decode(
      grpc::ByteBuffer* bytes, const CallContext& context) const;

 private:
  template <typename Request>
  absl::Status ReceivePayloads(grpc::ByteBuffer* bytes,
                               std::vector<PayloadRange>& payloads,
                               Request& request,
                               const CallContext& context) const;

  const CallDispatch& calls_;
  const MessageLimits limits_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_PAYLOAD_DECODER_H_
