#include "client/grpc_connection.h"

#include <chrono>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "grpcpp/client_context.h"
#include "proto/grpc_status.h"
#include "tensor/proto_codec.h"

namespace tensorkv {
namespace {

// A protobuf message cannot be longer, and a longer one aborts the process.
constexpr size_t kMaxProtobufBytes = std::numeric_limits<int>::max();

// gRPC's deadline is this much after the caller's, so that the server's own
// error, which names what was missing, arrives first.
constexpr absl::Duration kDeadlineGrace = absl::Milliseconds(100);

// Longer timeouts are no bound: a deadline that far would overflow.
constexpr absl::Duration kLongestTimeout = absl::Hours(24 * 365);

void SetDeadline(absl::Duration timeout, grpc::ClientContext& context) {
  if (timeout > kLongestTimeout) return;
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMicroseconds(timeout + kDeadlineGrace));
}

// gRPC's own deadline error says nothing; the server's says what was missing.
absl::Status Explained(const absl::Status& status, absl::Duration timeout) {
  if (status.message() != "Deadline Exceeded") return status;
  return absl::DeadlineExceededError(absl::StrCat(
      "no answer from the server within ", absl::FormatDuration(timeout)));
}

template <typename Entries>
size_t PayloadBytes(const Entries& entries) {
  size_t bytes = 0;
  for (const auto& entry : entries) bytes += entry.tensor.size_bytes();
  return bytes;
}

template <typename Proto, typename Request>
Proto Encode(const Request& request) {
  Proto proto;
  ToProto(request, &proto);
  return proto;
}

// A reply that makes no sense is the server's fault, not the request's.
template <typename Reply>
absl::StatusOr<Reply> Checked(absl::StatusOr<Reply> decoded) {
  if (decoded.ok()) return decoded;
  return absl::InternalError(
      absl::StrCat("malformed reply: ", decoded.status().message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> GrpcConnection::Create(
    const GrpcConnectionOptions& options) {
  if (options.target.empty()) {
    return absl::InvalidArgumentError(
        "target: expected \"host:port\" or another gRPC target, got none");
  }
  if (options.max_message_bytes == 0 ||
      options.max_message_bytes > kMaxProtobufBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_message_bytes: expected 1 to ", kMaxProtobufBytes,
                     ", got ", options.max_message_bytes));
  }
  auto stub = v1::TensorKV::NewStub(
      OpenChannel(options.target, options.max_message_bytes));
  return std::unique_ptr<Connection>(
      new GrpcConnection(std::move(stub), options.max_message_bytes));
}

absl::Status GrpcConnection::CheckSize(size_t request_bytes) const {
  if (request_bytes <= max_message_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "request of ", request_bytes, " bytes: expected at most ",
      max_message_bytes_, "; send fewer or smaller tensors in one call"));
}

template <typename Request, typename Response>
absl::StatusOr<Response> GrpcConnection::Call(Method<Request, Response> method,
                                              const Request& request,
                                              const CallOptions& options) {
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::DeadlineExceededError("no time was left to send the request");
  }
  RETURN_IF_ERROR(CheckSize(request.ByteSizeLong()));
  grpc::ClientContext context;
  SetDeadline(options.timeout, context);
  Response response;
  const grpc::Status status = ((*stub_).*method)(&context, request, &response);
  RETURN_IF_ERROR(Explained(FromGrpcStatus(status), options.timeout));
  return response;
}

absl::StatusOr<InitReply> GrpcConnection::Init(const InitRequest& request,
                                               const CallOptions& options) {
  RETURN_IF_ERROR(CheckSize(PayloadBytes(request.entries)));
  ASSIGN_OR_RETURN(
      auto response,
      Call(&Stub::Init, Encode<v1::InitRequest>(request), options));
  return FromProto(response);
}

absl::StatusOr<PushReply> GrpcConnection::Push(const PushRequest& request,
                                               const CallOptions& options) {
  RETURN_IF_ERROR(CheckSize(PayloadBytes(request.entries)));
  ASSIGN_OR_RETURN(
      auto response,
      Call(&Stub::Push, Encode<v1::PushRequest>(request), options));
  return FromProto(response);
}

absl::StatusOr<PullReply> GrpcConnection::Pull(const PullRequest& request,
                                               const CallOptions& options) {
  ASSIGN_OR_RETURN(
      auto response,
      Call(&Stub::Pull, Encode<v1::PullRequest>(request), options));
  return Checked(FromProto(std::move(response)));
}

absl::StatusOr<PullReply> GrpcConnection::PushPull(const PushRequest& request,
                                                   const CallOptions& options) {
  RETURN_IF_ERROR(CheckSize(PayloadBytes(request.entries)));
  ASSIGN_OR_RETURN(
      auto response,
      Call(&Stub::PushPull, Encode<v1::PushPullRequest>(request), options));
  return Checked(FromProto(std::move(response)));
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
  return Checked(FromProto(response));
}

absl::StatusOr<StatReply> GrpcConnection::Stat(const StatRequest& request,
                                               const CallOptions& options) {
  ASSIGN_OR_RETURN(
      auto response,
      Call(&Stub::Stat, Encode<v1::StatRequest>(request), options));
  return Checked(FromProto(response));
}

absl::Status GrpcConnection::CreateNamespace(
    const CreateNamespaceRequest& request, const CallOptions& options) {
  return Call(&Stub::CreateNamespace,
              Encode<v1::CreateNamespaceRequest>(request), options)
      .status();
}

absl::StatusOr<NamespaceStatus> GrpcConnection::DescribeNamespace(
    const std::string& name_space, const CallOptions& options) {
  v1::DescribeNamespaceRequest request;
  request.set_namespace_(name_space);
  ASSIGN_OR_RETURN(auto response,
                   Call(&Stub::DescribeNamespace, request, options));
  return Checked(FromProto(response.status()));
}

absl::StatusOr<std::vector<NamespaceStatus>> GrpcConnection::ListNamespaces(
    const CallOptions& options) {
  ASSIGN_OR_RETURN(auto response, Call(&Stub::ListNamespaces,
                                       v1::ListNamespacesRequest(), options));
  std::vector<NamespaceStatus> namespaces;
  namespaces.reserve(response.namespaces_size());
  for (const v1::NamespaceStatus& proto : response.namespaces()) {
    ASSIGN_OR_RETURN(NamespaceStatus status, Checked(FromProto(proto)));
    namespaces.push_back(std::move(status));
  }
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

absl::StatusOr<RuleSpec> GrpcConnection::SetHyperparameters(
    const SetHyperparametersRequest& request, const CallOptions& options) {
  ASSIGN_OR_RETURN(
      auto response,
      Call(&Stub::SetHyperparameters,
           Encode<v1::SetHyperparametersRequest>(request), options));
  return FromProto(response.rule());
}

absl::StatusOr<ServerStatus> GrpcConnection::DescribeServer(
    const CallOptions& options) {
  ASSIGN_OR_RETURN(auto response, Call(&Stub::DescribeServer,
                                       v1::DescribeServerRequest(), options));
  return FromProto(response);
}

}  // namespace tensorkv
