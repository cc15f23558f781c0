#include "client/internal/grpc_connection.h"

#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/internal/call_deadline.h"
#include "client/internal/message_bytes.h"
#include "client/internal/steady_now.h"
#include "contract/proto_codec.h"
#include "grpcpp/client_context.h"

namespace tensorkv {
namespace {

// Below this, a stream could not even carry its own metadata.
constexpr size_t kMinMessageBytes = 1024;
// A protobuf message cannot be longer, and a longer one aborts the process.
constexpr size_t kMaxMessageBytes = std::numeric_limits<int>::max();

template <typename Proto, typename Request>
Proto Encode(const Request& request) {
  Proto proto;
  ToProto(request, &proto);
  return proto;
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
  return std::unique_ptr<Connection>(new GrpcConnection(options));
}

GrpcConnection::GrpcConnection(const GrpcConnectionOptions& options)
    : max_message_bytes_(options.max_message_bytes),
      channels_(options.target, options.max_message_bytes,
                NumBulkConnections(options.transfer)),
      stub_(v1::TensorKV::NewStub(channels_.small())),
      data_calls_(channels_, options.transfer, options.max_message_bytes) {}

template <typename Request, typename Response>
absl::StatusOr<Response> GrpcConnection::Call(Method<Request, Response> method,
                                              const Request& request,
                                              const CallOptions& options) {
  const CallDeadline deadline(options.timeout);
  RETURN_IF_ERROR(deadline.CheckTimeLeft());
  RETURN_IF_ERROR(CheckMessageSize(request.ByteSizeLong(), max_message_bytes_));
  grpc::ClientContext context;
  deadline.ApplyTo(context);
  // Whoever asks what the server is expects nothing of it.
  constexpr bool kExpects = !std::is_same_v<Request, v1::DescribeServerRequest>;
  if (kExpects) channels_.server().ApplyTo(context);
  Response response;
  const grpc::Status status = ((*stub_).*method)(&context, request, &response);
  RETURN_IF_ERROR(deadline.StatusOf(status));
  if (kExpects) channels_.server().LearnFrom(context);
  return response;
}

absl::StatusOr<InitReply> GrpcConnection::Init(const InitRequest& request,
                                               const CallOptions& options) {
  return data_calls_.Init(request, options);
}

absl::StatusOr<PushReply> GrpcConnection::Push(const PushRequest& request,
                                               const CallOptions& options) {
  return data_calls_.Push(request, options);
}

absl::StatusOr<PullReply> GrpcConnection::Pull(const PullRequest& request,
                                               const CallOptions& options) {
  return data_calls_.Pull(request, options);
}

absl::StatusOr<PullReply> GrpcConnection::PushPull(const PushRequest& request,
                                                   const CallOptions& options) {
  return data_calls_.PushPull(request, options);
}

absl::StatusOr<DeleteReply> GrpcConnection::Delete(const DeleteRequest& request,
                                                   const CallOptions& options) {
  ASSIGN_OR_RETURN(
      auto response,
      Call(&Stub::Delete, Encode<v1::DeleteRequest>(request), options));
  return FromProto(response);
}

absl::StatusOr<ListReply> GrpcConnection::List(const ListRequest& request,
                                               const CallOptions& options) {
  ASSIGN_OR_RETURN(
      auto response,
      Call(&Stub::List, Encode<v1::ListRequest>(request), options));
  return CheckReply(FromProto(response));
}

absl::StatusOr<StatReply> GrpcConnection::Stat(const StatRequest& request,
                                               const CallOptions& options) {
  ASSIGN_OR_RETURN(
      auto response,
      Call(&Stub::Stat, Encode<v1::StatRequest>(request), options));
  return CheckReply(FromProto(response));
}

absl::StatusOr<CreateNamespaceReply> GrpcConnection::CreateNamespace(
    const CreateNamespaceRequest& request, const CallOptions& options) {
  ASSIGN_OR_RETURN(auto response,
                   Call(&Stub::CreateNamespace,
                        Encode<v1::CreateNamespaceRequest>(request), options));
  return FromProto(response);
}

absl::StatusOr<NamespaceStatus> GrpcConnection::DescribeNamespace(
    const std::string& name_space, const CallOptions& options) {
  v1::DescribeNamespaceRequest request;
  request.set_namespace_(name_space);
  ASSIGN_OR_RETURN(auto response,
                   Call(&Stub::DescribeNamespace, request, options));
  return CheckReply(FromProto(response.status()));
}

absl::StatusOr<std::vector<NamespaceStatus>> GrpcConnection::ListNamespaces(
    const CallOptions& options) {
  const absl::Duration end = SteadyNow() + options.timeout;
  std::vector<NamespaceStatus> namespaces;
  v1::ListNamespacesRequest request;
  do {
    ASSIGN_OR_RETURN(auto response, Call(&Stub::ListNamespaces, request,
                                         {.timeout = end - SteadyNow()}));
    ASSIGN_OR_RETURN(ListNamespacesReply page, CheckReply(FromProto(response)));
    absl::c_move(page.namespaces, std::back_inserter(namespaces));
    request.set_page_token(page.next_page_token);
  } while (!request.page_token().empty());
  return namespaces;
}

absl::Status GrpcConnection::DeleteNamespace(const std::string& name_space,
                                             const CallOptions& options) {
  v1::DeleteNamespaceRequest request;
  request.set_namespace_(name_space);
  return Call(&Stub::DeleteNamespace, request, options).status();
}

absl::Status GrpcConnection::SetRule(const SetRuleRequest& request,
                                     const CallOptions& options) {
  return Call(&Stub::SetRule, Encode<v1::SetRuleRequest>(request), options)
      .status();
}

absl::Status GrpcConnection::UnsetRule(const UnsetRuleRequest& request,
                                       const CallOptions& options) {
  return Call(&Stub::UnsetRule, Encode<v1::UnsetRuleRequest>(request), options)
      .status();
}

absl::StatusOr<RuleSpec> GrpcConnection::SetHyperparameters(
    const SetHyperparametersRequest& request, const CallOptions& options) {
  ASSIGN_OR_RETURN(
      auto response,
      Call(&Stub::SetHyperparameters,
           Encode<v1::SetHyperparametersRequest>(request), options));
  return FromProto(response.rule());
}

absl::StatusOr<JoinReply> GrpcConnection::Join(const JoinRequest& request,
                                               const CallOptions& options) {
  ASSIGN_OR_RETURN(
      auto response,
      Call(&Stub::Join, Encode<v1::JoinRequest>(request), options));
  return CheckReply(FromProto(response));
}

absl::StatusOr<KeepAliveReply> GrpcConnection::KeepAlive(
    const KeepAliveRequest& request, const CallOptions& options) {
  ASSIGN_OR_RETURN(
      auto response,
      Call(&Stub::KeepAlive, Encode<v1::KeepAliveRequest>(request), options));
  return CheckReply(FromProto(response));
}

absl::Status GrpcConnection::Leave(const LeaveRequest& request,
                                   const CallOptions& options) {
  return Call(&Stub::Leave, Encode<v1::LeaveRequest>(request), options)
      .status();
}

absl::Status GrpcConnection::Barrier(const BarrierRequest& request,
                                     const CallOptions& options) {
  return Call(&Stub::Barrier, Encode<v1::BarrierRequest>(request), options)
      .status();
}

absl::StatusOr<ServerStatus> GrpcConnection::DescribeServer(
    const CallOptions& options) {
  ASSIGN_OR_RETURN(auto response, Call(&Stub::DescribeServer,
                                       v1::DescribeServerRequest(), options));
  return FromProto(response);
}

}  // namespace tensorkv
