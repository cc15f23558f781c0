// A Connection to a server.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_GRPC_CONNECTION_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_GRPC_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "client/connection.h"
#include "client/credentials.h"
#include "client/destination.h"
#include "client/internal/calls/awaited.h"
#include "client/internal/calls/call_deadline.h"
#include "client/internal/calls/task.h"
#include "client/internal/transfer/bulk_calls.h"
#include "client/internal/transfer/channel_pool.h"
#include "client/internal/transfer/grpc_channel.h"
#include "client/internal/transfer/server_incarnation.h"
#include "client/internal/transfer/stream_policy.h"
#include "client/internal/transfer/trimmed_pool.h"
#include "client/internal/transfer/unary_calls.h"
#include "client/transfer_options.h"

namespace tensorkv {

struct GrpcConnectionOptions {
  // "host:port", "unix:/path", or a gRPC target with a scheme.
  std::string target;

  // The longest message sent or taken, encoded. It does not bound the tensors
  // of a call, which go as streams where they do not fit; a call that is too
  // long for other reasons, such as too many keys, is ResourceExhausted.
  size_t max_message_bytes = kDefaultMaxMessageBytes;

  TransferOptions transfer;

  Credentials credentials;
  // The time from one look at the files of the credentials to the next.
  absl::Duration watch_period = absl::Seconds(2);

  // Holds what is known of the server; other connections may share it. Null:
  // nothing is known yet.
  std::shared_ptr<ServerIncarnation> server;
};

// Sends calls and blocks until their answers. Thread-safe. Errors come as the
// server gave them.
//
// Elements are not copied to be sent: nobody may write them before the call has
// ended or, if it failed, before their buffers have one owner again. Those
// received are copied once, into the call's destinations or, without them, into
// 64-byte aligned memory; small tensors of a reply share buffers.
//
// Tensors of requests go in one message or as streams, as TransferOptions says.
// Values of replies come in the reply or, if that has a ticket, as streams: the
// server decides.
class GrpcConnection final : public TaskConnection {
 public:
  // Opens channels; each connects at its first call. Where the files of the
  // credentials change, calls from then on go over others.
  // Errors: InvalidArgument (empty target; max_message_bytes below 1 KiB or
  // above what a message can hold; transfer options that make no sense;
  // credentials that WatchedCredentials refuses) · those of CheckNotForked.
  static absl::StatusOr<std::unique_ptr<Connection>> Create(
      const GrpcConnectionOptions& options);
  // Opens a connection with that security, whatever the credentials in the
  // options say. REQUIRES: Create takes the options.
  static std::unique_ptr<GrpcConnection> Open(
      const GrpcConnectionOptions& options, const ChannelSecurity& security);

  // May be destroyed by the `done` of the last call that was started.
  ~GrpcConnection() override = default;

  bool CastsAsItSends() const override { return true; }

 private:
  GrpcConnection(const GrpcConnectionOptions& options,
                 const ChannelSecurity& security);

  // Streams block.
  Task<absl::Status> Make(AnyCall call, CallOptions options,
                          CallThreads* threads) override;
  template <typename Request>
  Task<absl::Status> MakeAs(const Request& request, ReplyTo<Request>& reply,
                            const CallDeadline& deadline,
                            const CallOptions& options, CallThreads* threads);
  // Makes the call as one message in each direction.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> CallAsMessage(
      const Request& request, const CallDeadline& deadline,
      const CallOptions& options, bool blocks);
  // Makes the call, whose request has tensors, as a stream of one stripe or
  // more.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> CallAsStream(const Request& request,
                                                const CallDeadline& deadline,
                                                const CallOptions& options);
  // Returns whether the request goes as a stream.
  template <typename Request>
  bool ShouldStream(const Request& request) const;

  ChannelPool channels_;
  const StreamPolicy policy_;
  const TrimmedPool buffers_;
  UnaryCalls unary_;
  BulkCalls bulk_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_GRPC_CONNECTION_H_
