// A Connection to a server.

#ifndef TENSORKV_CLIENT_GRPC_CONNECTION_H_
#define TENSORKV_CLIENT_GRPC_CONNECTION_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "client/grpc_channel.h"
#include "tensorkv/v1/service.grpc.pb.h"

namespace tensorkv {

struct GrpcConnectionOptions {
  // "host:port", "unix:/path", or any gRPC target.
  std::string target;

  // Requests whose encoding is longer fail with ResourceExhausted before they
  // are sent, replies when they arrive.
  size_t max_message_bytes = kDefaultMaxMessageBytes;
};

// Sends each call as one unary RPC and blocks until its answer. Thread-safe.
// Errors come as the server gave them.
//
// A tensor is copied once into the message; tensors of a reply take over its
// payloads.
class GrpcConnection final : public Connection {
 public:
  // Opens a channel; it connects at the first call.
  // Errors: InvalidArgument (empty target, max_message_bytes 0 or above what
  // a message can hold).
  static absl::StatusOr<std::unique_ptr<Connection>> Create(
      const GrpcConnectionOptions& options);

  absl::StatusOr<InitReply> Init(const InitRequest& request,
                                 const CallOptions& options) override;
  absl::StatusOr<PushReply> Push(const PushRequest& request,
                                 const CallOptions& options) override;
  absl::StatusOr<PullReply> Pull(const PullRequest& request,
                                 const CallOptions& options) override;
  absl::StatusOr<PullReply> PushPull(const PushRequest& request,
                                     const CallOptions& options) override;
  absl::StatusOr<DeleteReply> Delete(const DeleteRequest& request,
                                     const CallOptions& options) override;
  absl::StatusOr<ListReply> List(const ListRequest& request,
                                 const CallOptions& options) override;
  absl::StatusOr<StatReply> Stat(const StatRequest& request,
                                 const CallOptions& options) override;

  absl::Status CreateNamespace(const CreateNamespaceRequest& request,
                               const CallOptions& options) override;
  absl::StatusOr<NamespaceStatus> DescribeNamespace(
      const std::string& name_space, const CallOptions& options) override;
  absl::StatusOr<std::vector<NamespaceStatus>> ListNamespaces(
      const CallOptions& options) override;
  absl::Status DeleteNamespace(const std::string& name_space,
                               const CallOptions& options) override;
  absl::Status SetRule(const SetRuleRequest& request,
                       const CallOptions& options) override;
  absl::StatusOr<RuleSpec> SetHyperparameters(
      const SetHyperparametersRequest& request,
      const CallOptions& options) override;

  absl::StatusOr<ServerStatus> DescribeServer(
      const CallOptions& options) override;

 private:
  using Stub = v1::TensorKV::StubInterface;
  template <typename Request, typename Response>
  using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&,
                                        Response*);

  GrpcConnection(std::unique_ptr<Stub> stub, size_t max_message_bytes)
      : stub_(std::move(stub)), max_message_bytes_(max_message_bytes) {}

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(Method<Request, Response> method,
                                const Request& request,
                                const CallOptions& options);

  absl::Status CheckSize(size_t request_bytes) const;

  const std::unique_ptr<Stub> stub_;
  const size_t max_message_bytes_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_GRPC_CONNECTION_H_
