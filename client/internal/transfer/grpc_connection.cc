#include "client/internal/transfer/grpc_connection.h"

#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/listen_address.h"
#include "base/status_macros.h"
#include "client/internal/calls/wait_queue.h"
#include "client/internal/transfer/cast_entries.h"
#include "client/internal/transfer/renewed_connection.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

// Below this, a stream could not even carry its own metadata.
constexpr size_t kMinMessageBytes = 1024;
// A protobuf message cannot be longer, and a longer one aborts the process.
constexpr size_t kMaxMessageBytes = std::numeric_limits<int>::max();

// Enough for all keys of a large model; a few bytes each.
constexpr size_t kMaxKnownKeys = 64 << 10;

// Requests with an entry per key carry tensors, or bring some back.
template <typename Request>
constexpr bool kMayStream = requires(const Request& r) {
  r.entries;
};
template <typename Request>
constexpr bool kSendsTensors =
    kMayStream<Request>&& requires(const Request& r) {
  r.entries.front().tensor;
};
template <typename Request>
constexpr bool kBringsTensors =
    kMayStream<Request>&& requires(const ReplyTo<Request>& r) {
  r.values;
};

// Returns whether the reply was too large for one message, as far as the status
// tells: gRPC refuses one without a reason.
bool MayBeTooLarge(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  return absl::IsResourceExhausted(status) &&
         (reason == Reason::kReplyTooLarge || reason == Reason::kUnspecified);
}

// Returns whether the call may be made again after that status. It has had no
// effect if the server has refused the reply; by the name of a call it is not
// made twice.
template <typename Request>
bool MayGoAsStreamAfter(const absl::Status& status, const Request& request) {
  if constexpr (kHasCallId<Request>) {
    return ReasonOf(status) == Reason::kReplyTooLarge || CallIdIn(request);
  }
  return true;
}

// Returns whether a call that went as one message is to be made as a stream.
template <typename Request>
bool NeedsStream(const absl::Status& status, const Request& request) {
  return kBringsTensors<Request> && MayBeTooLarge(status) &&
         MayGoAsStreamAfter(status, request);
}

// Returns whether one of the target's addresses has a port that there is none
// of: gRPC would take the rest of its division by 65536.
bool HasImpossiblePort(absl::string_view target) {
  if (IsUnixSocket(target)) return false;
  return absl::c_any_of(
      absl::StrSplit(target, ','), [](absl::string_view address) {
        const absl::string_view port = PortOf(address);
        uint32_t number = 0;
        return !port.empty() && absl::c_all_of(port, absl::ascii_isdigit) &&
               (!absl::SimpleAtoi(port, &number) || number > 65535);
      });
}

absl::Status CheckOptions(const GrpcConnectionOptions& options) {
  // A target without either names no port, which gRPC takes for 443 or 0.
  if (!absl::StrContains(options.target, ':')) {
    return absl::InvalidArgumentError(absl::StrCat(
        "target: expected \"host:port\", \"unix:/path\", or a gRPC target with "
        "a scheme, got \"",
        options.target, "\""));
  }
  if (HasImpossiblePort(options.target)) {
    return absl::InvalidArgumentError(
        absl::StrCat("target: expected a port of at most 65535, got \"",
                     options.target, "\""));
  }
  if (options.max_message_bytes < kMinMessageBytes ||
      options.max_message_bytes > kMaxMessageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_message_bytes: expected ", kMinMessageBytes, " to ",
                     kMaxMessageBytes, ", got ", options.max_message_bytes));
  }
  return CheckTransferOptions(options.transfer);
}

// Returns whether the call may succeed as a message: the server takes no more
// streams, or none.
bool RefusesStreams(const absl::Status& status) {
  return absl::IsUnimplemented(status) ||
         (absl::IsResourceExhausted(status) &&
          ReasonOf(status) == Reason::kLimitReached);
}

// A server that stops cancels the calls that wait: to their caller it is one
// that does not answer any more.
absl::Status EndOf(absl::Status status, const CallOptions& options) {
  const bool by_caller =
      options.canceller != nullptr && options.canceller->is_cancelled();
  if (!absl::IsCancelled(status) || by_caller) return status;
  return absl::UnavailableError("the server has ended the call");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> GrpcConnection::Create(
    const GrpcConnectionOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  RETURN_IF_ERROR(CheckNotForked());
  ASSIGN_OR_RETURN(std::shared_ptr<const WatchedCredentials> credentials,
                   WatchedCredentials::Of(options.credentials, options.target,
                                          options.watch_period));
  if (credentials == nullptr) return Open(options, ChannelSecurity());
  return std::make_unique<RenewedConnection>(options, std::move(credentials));
}

std::unique_ptr<GrpcConnection> GrpcConnection::Open(
    const GrpcConnectionOptions& options, const ChannelSecurity& security) {
  BindToThisProcess();
  return std::unique_ptr<GrpcConnection>(new GrpcConnection(options, security));
}

GrpcConnection::GrpcConnection(const GrpcConnectionOptions& options,
                               const ChannelSecurity& security)
    : max_message_bytes_(options.max_message_bytes),
      channels_(options.target, options.max_message_bytes,
                NumBulkConnections(options.transfer), security,
                options.server ? options.server
                               : std::make_shared<ServerIncarnation>()),
      policy_(options.transfer, options.max_message_bytes),
      buffers_(options.transfer.max_idle_bytes, options.transfer.max_idle_time),
      unary_(channels_.small(), &channels_.server(), options.max_message_bytes,
             buffers_.pool()),
      bulk_(channels_, options.transfer, options.max_message_bytes,
            buffers_.pool()),
      large_keys_(policy_, kMaxKnownKeys) {}

Task<absl::Status> GrpcConnection::Make(AnyCall call, CallOptions options,
                                        CallThreads* threads) {
  const CallDeadline deadline(options.timeout, options.canceller);
  CO_RETURN_IF_ERROR(deadline.CheckTimeLeft());
  if (threads != nullptr) options.casts = {};
  Task<absl::Status> task =
      call.Visit([&](const auto& request, auto& reply) -> Task<absl::Status> {
        return MakeAs(request, reply, deadline, options, threads);
      });
  absl::Status status = co_await task;
  co_return EndOf(std::move(status), options);
}

template <typename Request>
Task<absl::Status> GrpcConnection::MakeAs(const Request& request,
                                          ReplyTo<Request>& reply,
                                          const CallDeadline& deadline,
                                          const CallOptions& options,
                                          CallThreads* threads) {
  const bool blocks = threads == nullptr;
  const uint64_t expected = ExpectedBytes(request);
  absl::StatusOr<ReplyTo<Request>> came;
  if (ShouldStream(request, expected)) {
    CO_RETURN_IF_ERROR(co_await ThreadOf(threads, deadline));
    came = CallAsStream(request, expected, deadline, options);
  } else {
    const bool in_batches = blocks && ShouldPullInBatches(request, options);
    if (in_batches) came = CallAsStream(request, 0, deadline, options);
    if (!in_batches || RefusesStreams(came.status())) {
      came = co_await CallAsMessage(request, deadline, options, blocks);
    }
    if (NeedsStream(came.status(), request)) {
      CO_RETURN_IF_ERROR(co_await ThreadOf(threads, deadline));
      came = CallAsStreamAfter(std::move(came), request, deadline, options);
    }
  }
  CO_RETURN_IF_ERROR(came.status());
  reply = *std::move(came);
  Learn(request, reply, expected);
  co_return absl::OkStatus();
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> GrpcConnection::CallAsMessage(
    const Request& request, const CallDeadline& deadline,
    const CallOptions& options, bool blocks) {
  if constexpr (std::is_base_of_v<PushRequest, Request>) {
    if (!options.casts.empty()) {
      Request cast = request;
      CO_RETURN_IF_ERROR(
          CastEntries(options.casts, *buffers_.pool(), cast.entries));
      co_return co_await unary_.Call(cast, deadline, options.destinations,
                                     blocks);
    }
  }
  co_return co_await unary_.Call(request, deadline, options.destinations,
                                 blocks);
}

template <typename Request>
uint64_t GrpcConnection::ExpectedBytes(const Request& request) const {
  if constexpr (kBringsTensors<Request>) {
    return large_keys_.ExpectedBytes(request);
  }
  return 0;
}

template <typename Request>
void GrpcConnection::Learn(const Request& request,
                           const ReplyTo<Request>& reply,
                           uint64_t expected_bytes) {
  // Pushed rows say nothing of how large their keys are.
  if constexpr (!kMayStream<Request> ||
                std::is_same_v<Request, PushRowsRequest>) {
    return;
  } else if constexpr (kSendsTensors<Request>) {
    large_keys_.Learn(request);
  } else {
    large_keys_.Learn(request, reply, expected_bytes);
  }
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> GrpcConnection::CallAsStream(
    const Request& request, uint64_t expected_bytes,
    const CallDeadline& deadline, const CallOptions& options) {
  if constexpr (std::is_same_v<Request, PushPullRequest>) {
    return bulk_.Call(request, expected_bytes, deadline, options.destinations,
                      options.casts);
  } else if constexpr (std::is_base_of_v<PushRequest, Request>) {
    return bulk_.Call(request, expected_bytes, deadline, options.casts);
  } else if constexpr (kBringsTensors<Request>) {
    return bulk_.Call(request, expected_bytes, deadline, options.destinations);
  } else if constexpr (kMayStream<Request>) {
    return bulk_.Call(request, expected_bytes, deadline);
  }
  return absl::InternalError("no stream carries such a call");
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> GrpcConnection::CallAsStreamAfter(
    absl::StatusOr<ReplyTo<Request>> refused, const Request& request,
    const CallDeadline& deadline, const CallOptions& options) {
  // If it was something else, the stream says so again.
  auto streamed = CallAsStream(request, max_message_bytes_, deadline, options);
  return absl::IsUnimplemented(streamed.status()) ? refused : streamed;
}

template <typename Request>
bool GrpcConnection::ShouldStream(const Request& request,
                                  uint64_t expected_bytes) const {
  if constexpr (kSendsTensors<Request>) {
    if (policy_.ShouldStream(request)) return true;
  }
  if constexpr (kBringsTensors<Request>) {
    return policy_.ShouldStream(expected_bytes, request.entries.size());
  }
  return false;
}

template <typename Request>
bool GrpcConnection::ShouldPullInBatches(const Request& request,
                                         const CallOptions& options) const {
  if constexpr (std::is_same_v<Request, PullRequest>) {
    const uint64_t num_entries = request.entries.size();
    return options.destinations.empty() &&
           policy_.ShouldStreamInBatches(large_keys_.GuessedBytes(num_entries),
                                         num_entries);
  }
  return false;
}

}  // namespace tensorkv
