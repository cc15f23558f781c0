// A Connection to a server.

#ifndef TENSORKV_CLIENT_INTERNAL_GRPC_CONNECTION_H_
#define TENSORKV_CLIENT_INTERNAL_GRPC_CONNECTION_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "client/internal/channel_pool.h"
#include "client/internal/data_calls.h"
#include "client/internal/grpc_channel.h"
#include "client/transfer_options.h"
#include "tensorkv/v1/service.grpc.pb.h"

namespace tensorkv {

struct GrpcConnectionOptions {
  // "host:port", "unix:/path", or any gRPC target.
  std::string target;

  // The longest message sent or taken, encoded. It does not bound the tensors
  // of a call, which go as streams where they do not fit; a call that is too
  // long for other reasons, such as too many keys, is ResourceExhausted.
  size_t max_message_bytes = kDefaultMaxMessageBytes;

  TransferOptions transfer;
};

// Sends calls and blocks until their answers. Thread-safe. Errors come as the
// server gave them.
//
// Elements are not copied to be sent: nobody may write them before the call has
// ended or, if it failed, before their buffers have one owner again. Those
// received are copied once, into 64-byte aligned memory; small tensors of a
// reply share buffers.
class GrpcConnection final : public Connection {
 public:
  // Opens channels; each connects at its first call.
  // Errors: InvalidArgument (empty target; max_message_bytes below 1 KiB or
  // above what a message can hold; transfer options that make no sense).
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

  absl::StatusOr<CreateNamespaceReply> CreateNamespace(
      const CreateNamespaceRequest& request,
      const CallOptions& options) override;
  absl::StatusOr<NamespaceStatus> DescribeNamespace(
      const std::string& name_space, const CallOptions& options) override;
  absl::StatusOr<std::vector<NamespaceStatus>> ListNamespaces(
      const CallOptions& options) override;
  absl::Status DeleteNamespace(const std::string& name_space,
                               const CallOptions& options) override;
  absl::Status SetRule(const SetRuleRequest& request,
                       const CallOptions& options) override;
  absl::Status UnsetRule(const UnsetRuleRequest& request,
                         const CallOptions& options) override;
  absl::StatusOr<RuleSpec> SetHyperparameters(
      const SetHyperparametersRequest& request,
      const CallOptions& options) override;

  absl::StatusOr<JoinReply> Join(const JoinRequest& request,
                                 const CallOptions& options) override;
  absl::StatusOr<KeepAliveReply> KeepAlive(const KeepAliveRequest& request,
                                           const CallOptions& options) override;
  absl::Status Leave(const LeaveRequest& request,
                     const CallOptions& options) override;
  absl::Status Barrier(const BarrierRequest& request,
                       const CallOptions& options) override;

  absl::StatusOr<ServerStatus> DescribeServer(
      const CallOptions& options) override;

 private:
  using Stub = v1::TensorKV::StubInterface;
  template <typename Request, typename Response>
  using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&,
                                        Response*);

  explicit GrpcConnection(const GrpcConnectionOptions& options);

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(Method<Request, Response> method,
                                const Request& request,
                                const CallOptions& options);

  const size_t max_message_bytes_;
  ChannelPool channels_;
  const std::unique_ptr<Stub> stub_;
  DataCalls data_calls_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_GRPC_CONNECTION_H_
