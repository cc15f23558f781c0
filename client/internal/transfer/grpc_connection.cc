#include "client/internal/transfer/grpc_connection.h"

#include <algorithm>
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

namespace tensorkv {
namespace {

// Below this, a stream could not even carry its own metadata.
constexpr size_t kMinMessageBytes = 1024;
// A protobuf message cannot be longer, and a longer one aborts the process.
constexpr size_t kMaxMessageBytes = std::numeric_limits<int>::max();

// True for requests with tensors, but for ids of rows alone, and for replies
// with values.
template <typename Request>
constexpr bool kSendsTensors = requires(const Request& r) {
  r.entries.front().tensor;
};
template <typename Request>
constexpr bool kBringsValues = requires(const ReplyTo<Request>& r) {
  r.values;
};

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
    : channels_(options.target, options.max_message_bytes,
                NumBulkConnections(options.transfer), security,
                options.server ? options.server
                               : std::make_shared<ServerIncarnation>()),
      policy_(options.transfer, options.max_message_bytes),
      buffers_(options.transfer.max_idle_bytes, options.transfer.max_idle_time),
      unary_(channels_.small(), &channels_.server(), options.max_message_bytes,
             std::max<uint64_t>(options.transfer.stream_threshold_bytes, 1),
             buffers_.pool()),
      bulk_(channels_, options.transfer, options.max_message_bytes,
            buffers_.pool()) {}

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
  absl::StatusOr<ReplyTo<Request>> came;
  if (ShouldStream(request)) {
    CO_RETURN_IF_ERROR(co_await ThreadOf(threads, deadline));
    came = CallAsStream(request, deadline, options);
  } else {
    came = co_await CallAsMessage(request, deadline, options, blocks);
  }
  CO_RETURN_IF_ERROR(came.status());
  reply = *std::move(came);
  if constexpr (kBringsValues<Request>) {
    if (reply.ticket) {
      CO_RETURN_IF_ERROR(co_await ThreadOf(threads, deadline));
      co_return bulk_.Bring(reply, deadline);
    }
  }
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
absl::StatusOr<ReplyTo<Request>> GrpcConnection::CallAsStream(
    const Request& request, const CallDeadline& deadline,
    const CallOptions& options) {
  if constexpr (std::is_same_v<Request, PushPullRequest>) {
    return bulk_.Call(request, deadline, options.destinations, options.casts);
  } else if constexpr (std::is_base_of_v<PushRequest, Request>) {
    return bulk_.Call(request, deadline, options.casts);
  } else if constexpr (kSendsTensors<Request>) {
    return bulk_.Call(request, deadline);
  }
  return absl::InternalError("no stream carries such a call");
}

template <typename Request>
bool GrpcConnection::ShouldStream(const Request& request) const {
  if constexpr (kSendsTensors<Request>) return policy_.ShouldStream(request);
  return false;
}

}  // namespace tensorkv
