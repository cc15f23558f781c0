// One stream of a striped call.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_STRIPE_STREAM_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_STRIPE_STREAM_H_

#include <memory>

#include "absl/status/status.h"
#include "client/internal/calls/call_deadline.h"
#include "client/internal/transfer/server_incarnation.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/sync_stream.h"

namespace tensorkv {

// An RPC of messages as bytes, either way, that blocks the thread which uses
// it. Confined to that thread, but for Cancel.
//
// Use: at least one Write, then Read until it returns false, then Finish; as
// soon as anything goes wrong, Finish. Destruction without Finish cancels.
class StripeStream {
 public:
  // Begins with the first Write. `method` is its path; it and `server` outlive
  // the object.
  StripeStream(std::shared_ptr<grpc::Channel> channel,
               ServerIncarnation* server, const char* method,
               const CallDeadline& deadline);
  ~StripeStream();

  // Sends a message; no other follows the last one. May return before it has
  // left. Returns false if the stream has ended.
  bool Write(const grpc::ByteBuffer& message, bool is_last);

  // Receives a message. Returns false if no other comes.
  bool Read(grpc::ByteBuffer* message);

  // Ends the stream, `outcome` being what became of the exchange on this side:
  // an error says what was wrong with the messages, or that there were too few.
  // Returns the server's status if the server ended the stream with an error,
  // else `outcome`.
  // REQUIRES: `outcome` is an error if neither Read nor Write returned false.
  absl::Status Finish(const absl::Status& outcome);

  // Makes the stream end with Cancelled, and soon. Thread-safe.
  void Cancel();

 private:
  using Stream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

  // Begins the RPC.
  void Begin();

  const std::shared_ptr<grpc::Channel> channel_;
  ServerIncarnation& server_;
  const char* const method_;
  const CallDeadline deadline_;
  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;  // from Begin to Finish
  bool has_failed_write_ = false;
  bool has_read_all_ = false;
  const Canceller::Listening listening_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_STRIPE_STREAM_H_
