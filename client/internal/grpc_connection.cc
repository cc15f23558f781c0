#include "client/internal/grpc_connection.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

// Below this, a stream could not even carry its own metadata.
constexpr size_t kMinMessageBytes = 1024;
// A protobuf message cannot be longer, and a longer one aborts the process.
constexpr size_t kMaxMessageBytes = std::numeric_limits<int>::max();

// Enough for all keys of a large model; a few bytes each.
constexpr size_t kMaxKnownKeys = 64 << 10;

// Requests with an entry per key carry tensors, or bring some back. There are
// no streams of rows.
template <typename Request>
constexpr bool kMayStream = !kIsOfRows<Request> && requires(const Request& r) {
  r.entries;
};
template <typename Request>
constexpr bool kSendsTensors = requires(const Request& r) {
  r.entries.front().tensor;
};
template <typename Request>
constexpr bool kBringsTensors = requires(const ReplyTo<Request>& r) {
  r.values;
};

// Whether the reply was too large for one message, as far as the status tells:
// gRPC refuses one without a reason.
bool MayBeTooLarge(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  return absl::IsResourceExhausted(status) &&
         (reason == Reason::kReplyTooLarge || reason == Reason::kUnspecified);
}

// Whether the call may be made again after that status. It has had no effect if
// the server has refused the reply; by the name of a call it is not made twice.
template <typename Request>
bool MayGoAsStreamAfter(const absl::Status& status, const Request& request) {
  if constexpr (requires { request.call_id; }) {
    return ReasonOf(status) == Reason::kReplyTooLarge || request.call_id;
  }
  return true;
}

absl::Status CheckOptions(const GrpcConnectionOptions& options) {
  if (options.target.empty()) {
    return absl::InvalidArgumentError(
        "target: expected \"host:port\" or another gRPC target, got none");
  }
  if (options.max_message_bytes < kMinMessageBytes ||
      options.max_message_bytes > kMaxMessageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_message_bytes: expected ", kMinMessageBytes, " to ",
                     kMaxMessageBytes, ", got ", options.max_message_bytes));
  }
  return CheckTransferOptions(options.transfer);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> GrpcConnection::Create(
    const GrpcConnectionOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(const ChannelSecurity security,
                   MakeChannelSecurity(options.credentials, options.target));
  return std::unique_ptr<Connection>(new GrpcConnection(options, security));
}

GrpcConnection::GrpcConnection(const GrpcConnectionOptions& options,
                               const ChannelSecurity& security)
    : max_message_bytes_(options.max_message_bytes),
      channels_(
          options.target, options.max_message_bytes,
          NumBulkConnections(options.transfer), security,
          options.server ? options.server : std::make_shared<KnownServer>()),
      policy_(options.transfer, options.max_message_bytes),
      buffers_(MakeRefCounted<BufferPool>(options.transfer.max_idle_bytes)),
      unary_(channels_.small(), &channels_.server(), options.max_message_bytes,
             buffers_),
      bulk_(channels_, options.transfer, options.max_message_bytes, buffers_),
      large_keys_(policy_, kMaxKnownKeys) {}

absl::Status GrpcConnection::Attempt(const AnyCall& call,
                                     const CallOptions& options) {
  const CallDeadline deadline(options.timeout, options.canceller);
  RETURN_IF_ERROR(deadline.CheckTimeLeft());
  return call.Visit([&](const auto& request, auto& reply) -> absl::Status {
    ASSIGN_OR_RETURN(reply, Call(request, deadline, options.destinations));
    return absl::OkStatus();
  });
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> GrpcConnection::Call(
    const Request& request, const CallDeadline& deadline,
    absl::Span<const Destination> destinations) {
  if constexpr (!kMayStream<Request>) {
    return unary_.Call(request, deadline, destinations);
  } else {
    uint64_t expected = 0;
    if constexpr (kBringsTensors<Request>) {
      expected = large_keys_.ExpectedBytes(request);
    }
    auto reply = Streams(request, expected)
                     ? CallAsStream(request, expected, deadline, destinations)
                     : CallAsOneMessage(request, deadline, destinations);
    if (!reply.ok()) return reply;
    if constexpr (kSendsTensors<Request>) {
      large_keys_.Learn(request);
    } else {
      large_keys_.Learn(request, *reply, expected);
    }
    return reply;
  }
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> GrpcConnection::CallAsStream(
    const Request& request, uint64_t expected_bytes,
    const CallDeadline& deadline, absl::Span<const Destination> destinations) {
  if constexpr (kBringsTensors<Request>) {
    return bulk_.Call(request, expected_bytes, deadline, destinations);
  } else {
    return bulk_.Call(request, expected_bytes, deadline);
  }
}

template <typename Request>
bool GrpcConnection::Streams(const Request& request,
                             uint64_t expected_bytes) const {
  if constexpr (kSendsTensors<Request>) {
    if (policy_.Streams(request)) return true;
  }
  return kBringsTensors<Request> &&
         policy_.Streams(expected_bytes, request.entries.size());
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> GrpcConnection::CallAsOneMessage(
    const Request& request, const CallDeadline& deadline,
    absl::Span<const Destination> destinations) {
  auto reply = unary_.Call(request, deadline, destinations);
  if constexpr (kBringsTensors<Request>) {
    const absl::Status& status = reply.status();
    if (!MayBeTooLarge(status) || !MayGoAsStreamAfter(status, request)) {
      return reply;
    }
    // If it was something else, the stream says so again.
    auto streamed =
        CallAsStream(request, max_message_bytes_, deadline, destinations);
    if (!absl::IsUnimplemented(streamed.status())) return streamed;
  }
  return reply;
}

}  // namespace tensorkv
