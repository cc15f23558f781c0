#include "client/data_calls.h"

#include <algorithm>

#include "base/status_macros.h"

namespace tensorkv {
namespace {

// A part of its own costs about as much as sending so many bytes more: a list
// of tensors that are smaller on average is faster as one message.
constexpr uint64_t kMinMeanPartBytes = 64 << 10;

// What an entry takes in a message beside its key and its elements, at most:
// a shape of rank 8, numbers, tags and lengths.
constexpr uint64_t kMaxEntryOverheadBytes = 192;

// Enough for all keys of a large model; a few bytes each.
constexpr size_t kMaxKnownKeys = 64 << 10;

struct RequestSize {
  uint64_t payload_bytes = 0;
  uint64_t message_bytes = 0;  // as one message, at most
};

template <typename Request>
RequestSize SizeOf(const Request& request) {
  RequestSize size;
  size.message_bytes = request.name_space.size() + kMaxEntryOverheadBytes;
  for (const auto& entry : request.entries) {
    size.payload_bytes += entry.tensor.size_bytes();
    size.message_bytes += entry.key.size() + kMaxEntryOverheadBytes;
  }
  size.message_bytes += size.payload_bytes;
  return size;
}

}  // namespace

DataCalls::DataCalls(ChannelPool& channels, const TransferOptions& options,
                     size_t max_message_bytes)
    : max_message_bytes_(max_message_bytes),
      stream_threshold_bytes_(options.stream_threshold_bytes),
      buffers_(MakeRefCounted<BufferPool>(options.max_idle_bytes)),
      unary_(channels.small(), max_message_bytes, buffers_),
      bulk_(channels, options, max_message_bytes, buffers_),
      large_keys_(
          std::min<uint64_t>(stream_threshold_bytes_, max_message_bytes),
          kMaxKnownKeys) {}

bool DataCalls::Streams(uint64_t payload_bytes, uint64_t num_tensors) const {
  if (payload_bytes > max_message_bytes_) return true;
  const uint64_t least_mean =
      std::min(kMinMeanPartBytes, stream_threshold_bytes_);
  return payload_bytes >= stream_threshold_bytes_ &&
         payload_bytes >= num_tensors * least_mean;
}

template <typename Request>
bool DataCalls::Streams(const Request& request) const {
  const RequestSize size = SizeOf(request);
  return size.message_bytes > max_message_bytes_ ||
         Streams(size.payload_bytes, request.entries.size());
}

absl::StatusOr<InitReply> DataCalls::Init(const InitRequest& request,
                                          const CallOptions& options) {
  const CallDeadline deadline(options.timeout);
  RETURN_IF_ERROR(deadline.CheckTimeLeft());
  absl::StatusOr<InitReply> reply = Streams(request)
                                        ? bulk_.Init(request, deadline)
                                        : unary_.Init(request, deadline);
  if (reply.ok()) large_keys_.Learn(request);
  return reply;
}

absl::StatusOr<PushReply> DataCalls::Push(const PushRequest& request,
                                          const CallOptions& options) {
  const CallDeadline deadline(options.timeout);
  RETURN_IF_ERROR(deadline.CheckTimeLeft());
  absl::StatusOr<PushReply> reply = Streams(request)
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
      Streams(expected, request.entries.size())
          ? bulk_.Pull(request, expected, deadline)
          : PullAsOneMessage(request, deadline);
  if (reply.ok()) large_keys_.Learn(request, *reply);
  return reply;
}

absl::StatusOr<PullReply> DataCalls::PullAsOneMessage(
    const PullRequest& request, const CallDeadline& deadline) {
  absl::StatusOr<PullReply> reply = unary_.Pull(request, deadline);
  if (!absl::IsResourceExhausted(reply.status())) return reply;
  // Most likely the reply was too large for one message. If it was something
  // else, the stream says so again.
  absl::StatusOr<PullReply> streamed =
      bulk_.Pull(request, max_message_bytes_, deadline);
  return absl::IsUnimplemented(streamed.status()) ? reply : streamed;
}

absl::StatusOr<PullReply> DataCalls::PushPull(const PushRequest& request,
                                              const CallOptions& options) {
  const CallDeadline deadline(options.timeout);
  RETURN_IF_ERROR(deadline.CheckTimeLeft());
  // What an entry that is skipped brings back is not in the request. A reply
  // that is refused cannot be asked for once more: the push has been made.
  const uint64_t expected = large_keys_.ExpectedBytes(request);
  const bool streams =
      Streams(request) || Streams(expected, request.entries.size());
  absl::StatusOr<PullReply> reply =
      streams ? bulk_.PushPull(request, expected, deadline)
              : unary_.PushPull(request, deadline);
  if (reply.ok()) large_keys_.Learn(request);
  return reply;
}

}  // namespace tensorkv
