#include "client/local/local_connection.h"

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/cores.h"
#include "base/scoped_blocking_call.h"
#include "base/status_macros.h"
#include "service/store/cancellation.h"
#include "service/store/tensor_store.h"
#include "tensor/bool_elements.h"

namespace tensorkv {
namespace {

int NumThreads(const LocalConnectionOptions& options) {
  return options.num_threads > 0 ? options.num_threads : NumCores();
}

// Checks that elements are of their dtype, which a server sees to when it
// receives them.
template <typename Request>
absl::Status CheckBools(const Request& request) {
  if constexpr (requires { request.entries.front().tensor; }) {
    for (const auto& entry : request.entries) {
      const Tensor& tensor = entry.tensor;
      if (tensor.dtype() != DType::kBool || !tensor.has_data()) continue;
      RETURN_IF_ERROR(CheckBoolElements(
          tensor.dtype(),
          {tensor.data(), static_cast<size_t>(tensor.size_bytes())}));
    }
  }
  return absl::OkStatus();
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> Ask(const CallDispatch& calls,
                                     const Request& request,
                                     const CallContext& context) {
  return calls.MakeAndWait(request, context);
}

// One page has all.
absl::StatusOr<ListNamespacesReply> Ask(const CallDispatch& calls,
                                        const ListNamespacesRequest&,
                                        const CallContext& context) {
  ASSIGN_OR_RETURN(std::vector<NamespaceStatus> namespaces,
                   calls.ListNamespaces("", SIZE_MAX, context));
  ListNamespacesReply reply;
  for (NamespaceStatus& each : namespaces) {
    *reply.add_namespaces() = std::move(each);
  }
  return reply;
}

template <typename Request>
requires kIsOfCheckpoints<Request> absl::StatusOr<ReplyTo<Request>> Ask(
    const CallDispatch&, const Request&, const CallContext&) {
  return absl::FailedPreconditionError(
      "a store in process has no checkpoint directory");
}

template <typename Request>
requires kIsOfServer<Request> absl::StatusOr<ReplyTo<Request>> Ask(
    const CallDispatch&, const Request&, const CallContext&) {
  return absl::FailedPreconditionError("a store in process is in no cluster");
}
absl::StatusOr<DescribeClusterReply> Ask(const CallDispatch&,
                                         const DescribeClusterRequest&,
                                         const CallContext&) {
  return DescribeClusterReply();
}

}  // namespace

LocalConnection::LocalConnection(const LocalConnectionOptions& options)
    : store_options_(options.store),
      start_unix_seconds_(absl::ToUnixSeconds(absl::Now())),
      cpu_(NumThreads(options)),
      backend_(options.backend != nullptr ? *options.backend : cpu_),
      store_(options.store, &backend_, &alarms_),
      calls_({.store = &store_, .namespaces = &store_, .staging = &store_}) {}

absl::Status LocalConnection::Attempt(const AnyCall& call,
                                      const CallOptions& options) {
  const ScopedBlockingCall waits;
  CallContext context = {.timeout = options.timeout};
  if (options.canceller != nullptr) {
    // The store looks at it only where a call waits.
    if (options.canceller->is_cancelled()) {
      return absl::CancelledError("cancelled by the caller");
    }
    context.cancellation = std::make_shared<Cancellation>();
  }
  const Canceller::Listening listening(options.canceller,
                                       [&] { context.cancellation->Cancel(); });
  return call.Visit([&](const auto& request, auto& reply) -> absl::Status {
    RETURN_IF_ERROR(CheckBools(request));
    if constexpr (std::is_same_v<decltype(reply), ServerStatus&>) {
      reply = Describe();
    } else {
      ASSIGN_OR_RETURN(reply, Ask(calls_, request, context));
    }
    return absl::OkStatus();
  });
}

ServerStatus LocalConnection::Describe() const {
  ServerStatus status;
  status.set_version("local");
  status.mutable_start_time()->set_seconds(start_unix_seconds_);
  status.add_devices(std::string(backend_.name()));
  status.set_budget_bytes(store_.budgets().host()->limit_bytes());
  status.set_used_bytes(store_.used_bytes());
  status.set_max_entries(store_options_.max_entries);
  return status;
}

}  // namespace tensorkv
