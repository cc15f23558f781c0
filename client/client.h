// The C++ client of TensorKV.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
//                    Client::Connect({.target = "127.0.0.1:7363"}));
//   RETURN_IF_ERROR(client->Init("w", weights));
//   RETURN_IF_ERROR(client->Push("w", gradient));
//   ASSIGN_OR_RETURN(Value value, client->Pull("w"));

#ifndef TENSORKV_CLIENT_CLIENT_H_
#define TENSORKV_CLIENT_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/connection.h"
#include "tensor/requests.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace tensorkv {

struct ClientOptions {
  // "host:port", "unix:/path", or any gRPC target.
  std::string target = "127.0.0.1:7363";

  // The namespace of every verb; empty means "default".
  std::string name_space;

  // Signs pushes and pulls as this worker of the namespace. Without a rank the
  // client is a reader and writer that is no member.
  std::optional<uint32_t> rank;

  // Bound of every call, connecting and retries included.
  absl::Duration timeout = absl::Seconds(30);

  // Receives the client's metrics (docs/operations.md lists them) where set.
  std::shared_ptr<prometheus::Registry> metrics;
};

// A client of one namespace of one server. Thread-safe, except that the step
// counter belongs to one training loop: see set_step.
//
// Every verb takes one key, or many in one call. A call over many keys is all
// or nothing. Values come back in the order of the keys. Errors are those of
// the verb in proto/tensorkv/v1/, prefixed with the verb and the server;
// DeadlineExceeded after options.timeout; Unavailable where no server answers.
//
// Calls that change nothing, and Init with KEEP, are repeated while the server
// is Unavailable, until the deadline. A Push that fails with Unavailable may
// or may not have been applied.
class Client {
 public:
  // Opens a connection. It is made in the background: a server that is down
  // shows at the first call.
  // Errors: InvalidArgument (empty target, namespace that is no name).
  static absl::StatusOr<std::unique_ptr<Client>> Connect(
      const ClientOptions& options);

  // A client over any connection, such as one to a store in this process
  // (client/local/local_connection.h). Of `options`, target is not used.
  Client(std::unique_ptr<Connection> connection, const ClientOptions& options);

  // Creates keys. OnExisting says what to do about those that exist.
  absl::Status Init(absl::string_view key, Tensor value,
                    OnExisting on_existing = OnExisting::kFail);
  absl::Status Init(std::vector<InitEntry> entries,
                    OnExisting on_existing = OnExisting::kFail);

  // Contributes tensors. In a sync namespace the contribution joins the
  // current step's round; each Push call without an explicit step begins the
  // next step.
  absl::StatusOr<PushResult> Push(absl::string_view key, Tensor contribution);
  absl::StatusOr<PushReply> Push(std::vector<PushEntry> entries);

  // Reads values; `min_version` waits for that version of the key.
  absl::StatusOr<Value> Pull(absl::string_view key, Version min_version = 0);
  absl::StatusOr<PullReply> Pull(absl::Span<const std::string> keys);
  absl::StatusOr<PullReply> Pull(PullRequest request);

  // Push, then Pull of the same keys, in one round trip.
  absl::StatusOr<Value> PushPull(absl::string_view key, Tensor contribution);
  absl::StatusOr<PullReply> PushPull(std::vector<PushEntry> entries);

  // Init with KEEP, then Pull: the first writer's values win, and every caller
  // gets them.
  absl::StatusOr<PullReply> Broadcast(std::vector<InitEntry> entries);

  absl::StatusOr<uint64_t> Delete(std::vector<std::string> keys,
                                  bool ignore_missing = false);
  // One page; the request's namespace is filled in.
  absl::StatusOr<ListReply> List(ListRequest request = {});
  absl::StatusOr<std::vector<KeyStatus>> Stat(std::vector<std::string> keys,
                                              bool with_digest = false);

  absl::Status SetRule(const RuleSpec& rule,
                       absl::string_view key_pattern = "");
  absl::StatusOr<RuleSpec> SetHyperparameters(
      const Hyperparameters& hyperparameters,
      absl::string_view key_pattern = "");

  // Namespaces of the server, by name; these do not use options.name_space.
  absl::Status CreateNamespace(absl::string_view name,
                               const NamespaceConfig& config,
                               OnExisting on_existing = OnExisting::kFail);
  absl::StatusOr<NamespaceStatus> DescribeNamespace(absl::string_view name);
  absl::StatusOr<std::vector<NamespaceStatus>> ListNamespaces();
  absl::Status DeleteNamespace(absl::string_view name);

  absl::StatusOr<ServerStatus> DescribeServer();

  // The step of the last push: 0 before the first. Setting it makes the next
  // push's step `step + 1`. Only the thread of the training loop may call
  // these while it pushes.
  Step step() const { return step_; }
  void set_step(Step step) { step_ = step; }

 private:
  PushRequest MakePush(std::vector<PushEntry> entries);

  const std::unique_ptr<Connection> connection_;
  const std::string name_space_;
  const std::optional<Worker> worker_;
  const CallOptions call_options_;
  Step step_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLIENT_H_
