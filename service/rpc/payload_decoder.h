// Decodes unary requests with payload into the memory where the store keeps
// them.

#ifndef TENSORKV_SERVICE_RPC_PAYLOAD_DECODER_H_
#define TENSORKV_SERVICE_RPC_PAYLOAD_DECODER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "contract/payload_reader.h"
#include "contract/requests.h"
#include "grpcpp/support/byte_buffer.h"
#include "service/rpc/message_limits.h"
#include "service/store/call_dispatch.h"

namespace tensorkv {

// Decodes requests with tensors, has them admitted as soon as their metadata is
// read, and copies their elements from the received slices straight into memory
// of the namespace. Requests in a form that writers
// do not usually give them go through the generated code, which accepts every
// form and explains errors.
//
// Each function empties `bytes`. Thread-safe.
// Errors: those of Decode in message_codec.h · why the call is not admitted ·
// NotFound (namespace) · ResourceExhausted (budget).
class PayloadDecoder {
 public:
  template <typename Request>
  using Admitted = CallDispatch::Admitted<Request>;

  // `calls` outlives the decoder.
  PayloadDecoder(const CallDispatch* calls, const MessageLimits& limits)
      : calls_(*calls), limits_(limits) {}

  // Decode and admit the request of the method of that name.
  absl::StatusOr<Admitted<InitRequest>> Init(grpc::ByteBuffer* bytes,
                                             const CallContext& context) const;
  absl::StatusOr<Admitted<PushRequest>> Push(grpc::ByteBuffer* bytes,
                                             const CallContext& context) const;
  absl::StatusOr<Admitted<PushPullRequest>> PushPull(
      grpc::ByteBuffer* bytes, const CallContext& context) const;

 private:
  template <typename Message, auto Read, typename Request>
  absl::StatusOr<Admitted<Request>> Decode(grpc::ByteBuffer* bytes,
                                           const CallContext& context) const;
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
