#include "client/internal/data_calls.h"

#include "base/status_macros.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

// Enough for all keys of a large model; a few bytes each.
constexpr size_t kMaxKnownKeys = 64 << 10;

// Whether the reply was too large for one message, as far as the status tells:
// gRPC refuses one without a reason.
bool MayBeTooLarge(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  return absl::IsResourceExhausted(status) &&
         (reason == Reason::kReplyTooLarge || reason == Reason::kUnspecified);
}

}  // namespace

DataCalls::DataCalls(ChannelPool& channels, const TransferOptions& options,
                     size_t max_message_bytes)
    : max_message_bytes_(max_message_bytes),
      policy_(options, max_message_bytes),
      buffers_(MakeRefCounted<BufferPool>(options.max_idle_bytes)),
      unary_(channels.small(), &channels.server(), max_message_bytes, buffers_),
      bulk_(channels, options, max_message_bytes, buffers_),
      large_keys_(policy_, kMaxKnownKeys) {}

absl::StatusOr<InitReply> DataCalls::Init(const InitRequest& request,
                                          const CallOptions& options) {
  const CallDeadline deadline(options.timeout);
  RETURN_IF_ERROR(deadline.CheckTimeLeft());
  absl::StatusOr<InitReply> reply = policy_.Streams(request)
                                        ? bulk_.Init(request, deadline)
                                        : unary_.Init(request, deadline);
  if (reply.ok()) large_keys_.Learn(request);
  return reply;
}

absl::StatusOr<PushReply> DataCalls::Push(const PushRequest& request,
                                          const CallOptions& options) {
  const CallDeadline deadline(options.timeout);
  RETURN_IF_ERROR(deadline.CheckTimeLeft());
  absl::StatusOr<PushReply> reply = policy_.Streams(request)
                                        ? bulk_.Push(request, deadline)
                                        : unary_.Push(request, deadline);
  if (reply.ok()) large_keys_.Learn(request);
  return reply;
}

absl::StatusOr<PullReply> DataCalls::Pull(const PullRequest& request,
                                          const CallOptions& options) {
  const CallDeadline deadline(options.timeout);
  RETURN_IF_ERROR(deadline.CheckTimeLeft());
  const uint64_t expected = large_keys_.ExpectedBytes(request);
  absl::StatusOr<PullReply> reply =
      policy_.Streams(expected, request.entries.size())
          ? bulk_.Pull(request, expected, deadline)
          : PullAsOneMessage(request, deadline);
  if (reply.ok()) large_keys_.Learn(request, *reply);
  return reply;
}

absl::StatusOr<PullReply> DataCalls::PullAsOneMessage(
    const PullRequest& request, const CallDeadline& deadline) {
  absl::StatusOr<PullReply> reply = unary_.Pull(request, deadline);
  if (!MayBeTooLarge(reply.status())) return reply;
  // If it was something else, the stream says so again.
  absl::StatusOr<PullReply> streamed =
      bulk_.Pull(request, max_message_bytes_, deadline);
  return absl::IsUnimplemented(streamed.status()) ? reply : streamed;
}

absl::StatusOr<PullReply> DataCalls::PushPull(const PushRequest& request,
                                              const CallOptions& options) {
  const CallDeadline deadline(options.timeout);
  RETURN_IF_ERROR(deadline.CheckTimeLeft());
  // What an entry that is skipped brings back is not in the request.
  const uint64_t expected = large_keys_.ExpectedBytes(request);
  const bool streams = policy_.Streams(request) ||
                       policy_.Streams(expected, request.entries.size());
  absl::StatusOr<PullReply> reply =
      streams ? bulk_.PushPull(request, expected, deadline)
              : PushPullAsOneMessage(request, deadline);
  if (reply.ok()) large_keys_.Learn(request);
  return reply;
}

absl::StatusOr<PullReply> DataCalls::PushPullAsOneMessage(
    const PushRequest& request, const CallDeadline& deadline) {
  absl::StatusOr<PullReply> reply = unary_.PushPull(request, deadline);
  if (!MayBeTooLarge(reply.status())) return reply;
  // Whether the push has been made is certain only where the server has refused
  // the reply. By the call's name it is not made twice.
  const bool may_be_made =
      ReasonOf(reply.status()) != Reason::kReplyTooLarge && !request.call_id;
  if (may_be_made) return reply;
  absl::StatusOr<PullReply> streamed =
      bulk_.PushPull(request, max_message_bytes_, deadline);
  return absl::IsUnimplemented(streamed.status()) ? reply : streamed;
}

}  // namespace tensorkv
