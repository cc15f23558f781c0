#include "client/local/local_connection.h"

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/answer.h"
#include "base/cores.h"
#include "base/status_macros.h"
#include "service/store/cancellation.h"
#include "service/store/tensor_store.h"
#include "tensor/bool_elements.h"

namespace tensorkv {
namespace {

int NumThreads(const LocalConnectionOptions& options) {
  return options.num_threads > 0 ? options.num_threads : NumCores();
}

// Starts a call that takes a callback, and waits for its reply.
template <typename Reply, typename Request>
absl::StatusOr<Reply> Await(
    MemoryTensorStore& store,
    void (MemoryTensorStore::*verb)(Request, CallContext, ReplyCallback<Reply>),
    const std::type_identity_t<Request>& request, const CallContext& context) {
  const Answer<absl::StatusOr<Reply>> answer;
  (store.*verb)(request, context, [answer](absl::StatusOr<Reply> reply) {
    answer.Set(std::move(reply));
  });
  return answer.Wait();
}

// Returns a reply without fields, if all went well.
template <typename Reply>
absl::StatusOr<Reply> ReplyIfOk(const absl::Status& status) {
  if (!status.ok()) return status;
  return Reply();
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

// Asks a store, by the verb that the type of the request is of.
using Store = MemoryTensorStore;
using Context = const CallContext&;

auto Ask(Store& store, const InitRequest& request, Context context) {
  return Await(store, &Store::Init, request, context);
}
auto Ask(Store& store, const PushRequest& request, Context context) {
  return Await(store, &Store::Push, request, context);
}
auto Ask(Store& store, const PullRequest& request, Context context) {
  return Await(store, &Store::Pull, request, context);
}
auto Ask(Store& store, const PushPullRequest& request, Context context) {
  return Await(store, &Store::PushPull, request, context);
}
auto Ask(Store& store, const PushRowsRequest& request, Context context) {
  return Await(store, &Store::Push, request, context);
}
auto Ask(Store& store, const PullRowsRequest& request, Context context) {
  return Await(store, &Store::Pull, request, context);
}
auto Ask(Store& store, const SetStateRequest& request, Context context) {
  return Await(store, &Store::SetState, request, context);
}
auto Ask(Store& store, const GetStateRequest& request, Context context) {
  return Await(store, &Store::GetState, request, context);
}
auto Ask(Store& store, const DeleteRequest& request, Context context) {
  return store.Delete(request, context);
}
auto Ask(Store& store, const ListRequest& request, Context context) {
  return store.List(request, context);
}
auto Ask(Store& store, const StatRequest& request, Context context) {
  return store.Stat(request, context);
}
auto Ask(Store& store, const CreateNamespaceRequest& request, Context context) {
  return store.CreateNamespace(request, context);
}
auto Ask(Store& store, const DescribeNamespaceRequest& request,
         Context context) {
  return store.DescribeNamespace(request, context);
}
// One page has all.
absl::StatusOr<ListNamespacesReply> Ask(Store& store,
                                        const ListNamespacesRequest&,
                                        Context context) {
  ASSIGN_OR_RETURN(
      std::vector<NamespaceStatus> namespaces,
      store.ListNamespaces(
          "", SIZE_MAX, [](absl::string_view) { return true; }, context));
  ListNamespacesReply reply;
  for (NamespaceStatus& each : namespaces) {
    *reply.add_namespaces() = std::move(each);
  }
  return reply;
}
auto Ask(Store& store, const DeleteNamespaceRequest& request, Context context) {
  return ReplyIfOk<DeleteNamespaceReply>(
      store.DeleteNamespace(request, context));
}
template <typename Request>
requires kIsOfNamespace<Request> absl::StatusOr<ReplyTo<Request>> Ask(
    Store& store, const Request& request, Context context) {
  ReplyTo<Request> reply;
  RETURN_IF_ERROR(store.Ask({request, reply}, context));
  return reply;
}
auto Ask(Store& store, const BarrierRequest& request, Context context) {
  return Await(store, &Store::Barrier, request, context);
}

template <typename Request>
requires kIsOfCheckpoints<Request> absl::StatusOr<ReplyTo<Request>> Ask(
    Store&, const Request&, Context) {
  return absl::FailedPreconditionError(
      "a store in process has no checkpoint directory");
}

template <typename Request>
requires kIsOfServer<Request> absl::StatusOr<ReplyTo<Request>> Ask(
    Store&, const Request&, Context) {
  return absl::FailedPreconditionError("a store in process is in no cluster");
}
absl::StatusOr<DescribeClusterReply> Ask(Store&, const DescribeClusterRequest&,
                                         Context) {
  return DescribeClusterReply();
}

}  // namespace

LocalConnection::LocalConnection(const LocalConnectionOptions& options)
    : store_options_(options.store),
      start_unix_seconds_(absl::ToUnixSeconds(absl::Now())),
      cpu_(NumThreads(options)),
      backend_(options.backend != nullptr ? *options.backend : cpu_),
      store_(options.store, &backend_, &alarms_) {}

absl::Status LocalConnection::Attempt(const AnyCall& call,
                                      const CallOptions& options) {
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
      ASSIGN_OR_RETURN(reply, Ask(store_, request, context));
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
