// One stream that carries a call, or a stripe of it, without its transport.

#ifndef TENSORKV_SERVICE_RPC_STREAM_SESSION_H_
#define TENSORKV_SERVICE_RPC_STREAM_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "contract/method.h"
#include "contract/stripe_range.h"
#include "grpcpp/support/byte_buffer.h"
#include "service/rpc/message_limits.h"
#include "service/rpc/reply_messages.h"
#include "service/rpc/striped_call.h"
#include "service/rpc/striped_calls.h"
#include "service/rpc/tickets.h"
#include "service/security/caller_quotas.h"
#include "service/store/call_dispatch.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// StreamDependencies holds what streams work on; all of it outlives them.
struct StreamDependencies {
  const CallDispatch* calls = nullptr;
  StripedCalls* striped_calls = nullptr;
  Tickets* tickets = nullptr;
  // Null: calls that bring tensors wait for no place.
  UploadQueue* uploads = nullptr;
  MessageLimits limits;
};

// Receives the messages of one stream: checks the manifest, then puts each
// part's bytes where the store will keep them, and makes the call with the
// last one. If it ends before, nothing has happened. Of a PullStream it takes
// the ticket.
//
// Confined to one thread at a time, but for Fail: once a Receive has returned,
// any thread may call it, also during Close.
class StreamSession {
 public:
  // Hears how the call ended; once at most, on any thread, maybe before
  // Receive or Close returns.
  using Listener =
      absl::AnyInvocable<void(absl::StatusOr<StripedCall::Reply>) &&>;

  // `dependencies` outlive the session, and so does `share`, to which the
  // call's payload is added; it may be null.
  StreamSession(Method method, Caller caller,
                const StreamDependencies* dependencies,
                CallerQuotas::Share* share, Listener listener);

  // Receives the next message, which it empties. May block while it allocates
  // memory for the call. Errors: those of Stripe in stream.proto and of the
  // verb. The stream must end with them.
  absl::Status Receive(grpc::ByteBuffer* message);

  // Calls `ready` when the next Receive may be called: now, or, while the call
  // waits for its turn or another thread prepares it, on that thread. To be
  // called after each Receive that succeeds.
  void WhenReady(absl::AnyInvocable<void() &&> ready);

  // Is to be called when the peer has sent all. The call is made if all its
  // stripes are complete; it may take `timeout` from now, and takes `share` as
  // CallContext says. Errors: InvalidArgument (bytes are missing).
  absl::Status Close(absl::Duration timeout,
                     std::shared_ptr<const void> share = nullptr);

  // Ends the call of which this stream is a stripe, as StripedCall::Fail says,
  // or its ticket: this stream is gone.
  void Fail(const absl::Status& status);
  // Is to be called when the last message of the reply goes out.
  void SetSent();

  // Returns the messages that answer a call which has succeeded. Errors: those
  // of ReplyMessages::Create.
  absl::StatusOr<ReplyMessages> MakeReply(StripedCall::Reply reply) const;

 private:
  // Receives the manifest, and joins the call.
  absl::Status Open(grpc::ByteBuffer* message);
  absl::Status TakeTicket(grpc::ByteBuffer* message);
  // Receives a part into the memory of its tensor.
  absl::Status ReceivePart(grpc::ByteBuffer* message);
  // Receives a part in a form that writers do not usually give it.
  absl::Status ReceiveUnusualPart(grpc::ByteBuffer* message);
  // Accepts the next part in its order, and returns the memory that its bytes
  // go to.
  absl::StatusOr<char*> MemoryFor(const PartRange& part);
  // Checks that the bytes of a part are valid elements of its tensor.
  absl::Status CheckPart(const PartRange& part, const char* elements) const;

  const Method method_;
  const Caller caller_;
  const StreamDependencies& dependencies_;
  CallerQuotas::Share* const share_;
  Listener listener_;
  ReplyForm reply_form_;
  // One of them is there after the first message.
  std::shared_ptr<StripedCall> call_;
  std::optional<Tickets::TakenStripe> taken_;
  std::optional<PartCursor> parts_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_STREAM_SESSION_H_
