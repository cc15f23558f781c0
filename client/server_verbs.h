// Has the verbs that are about a server, whatever the namespace of its client.

#ifndef TENSORKV_CLIENT_SERVER_VERBS_H_
#define TENSORKV_CLIENT_SERVER_VERBS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/connection.h"
#include "contract/any_call.h"
#include "contract/requests.h"

namespace tensorkv {

class ClientCalls;

// ServerVerbs has the verbs about servers of every Client; see there for
// threads, deadlines and errors.
class ServerVerbs {
 public:
  // Creates a namespace. `on_existing` says what to do about one of that name
  // that exists.
  absl::Status CreateNamespace(absl::string_view name,
                               const NamespaceConfig& config,
                               OnExisting on_existing = OnExisting::kFail);
  // Changes the fields of `config` that `update_mask` names, such as "quorum"
  // or "gradient_guard.max_norm", of the namespace of that name and uid; uid 0
  // stands for whichever has the name. Returns the configuration as it is then.
  absl::StatusOr<NamespaceConfig> UpdateNamespace(
      absl::string_view name, const NamespaceConfig& config,
      std::vector<std::string> update_mask, uint64_t uid = 0);
  // Describes a namespace as it is now, also at a server that was restarted.
  absl::StatusOr<NamespaceStatus> DescribeNamespace(absl::string_view name);
  // Returns all pages of the namespaces that the caller may read, within one
  // timeout.
  absl::StatusOr<std::vector<NamespaceStatus>> ListNamespaces();
  // Deletes the namespace of that name and uid; uid 0 stands for the one that
  // has the name when the call begins. None that is created later is deleted,
  // however often a connection breaks. A caller who makes the call again, since
  // it may not have been made, gives the uid. Without one, a call
  // completes what one that failed has left at some servers of a cluster.
  absl::Status DeleteNamespace(absl::string_view name, uint64_t uid = 0);

  // The verbs of TENSORKV_SERVER_METHODS: DescribeServer(), DescribeCluster(),
  // ResizeCluster(request), ...; their requests and errors are explained in
  // service.proto and cluster.proto. ResizeCluster returns before keys have
  // moved: call it again, with no names, for how many partitions are left.
#define TENSORKV_VERB(name, ...)                                 \
  absl::StatusOr<name##Reply> name(name##Request request = {}) { \
    return Call(std::move(request));                             \
  }
  TENSORKV_SERVER_METHODS(TENSORKV_VERB)
#undef TENSORKV_VERB

  // Saves a checkpoint of the server. Without a name, the server makes one up;
  // without namespaces, all are saved.
  absl::StatusOr<CheckpointStatus> SaveCheckpoint(
      absl::string_view name = "",
      const std::vector<std::string>& namespaces = {});
  absl::StatusOr<CheckpointStatus> RestoreCheckpoint(
      RestoreCheckpointRequest request);
  // Returns all pages of the checkpoints, within one timeout, and the oldest
  // first.
  absl::StatusOr<std::vector<CheckpointStatus>> ListCheckpoints();
  absl::Status DeleteCheckpoint(absl::string_view name);
  absl::StatusOr<CheckpointStatus> VerifyCheckpoint(absl::string_view name);

  // Makes a call by its request, of TENSORKV_NAMESPACE_METHODS,
  // TENSORKV_CHECKPOINT_METHODS or TENSORKV_SERVER_METHODS. Sends the request
  // as it is, but for its call_id.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> Call(Request request);

 protected:
  ServerVerbs(std::shared_ptr<ClientCalls> calls, CallOptions call_options)
      : calls_(std::move(calls)), call_options_(std::move(call_options)) {}
  ~ServerVerbs() = default;

  // Returns the options of the verbs with another timeout.
  CallOptions OptionsWithTimeout(absl::Duration timeout) const {
    CallOptions options = call_options_;
    options.timeout = timeout;
    return options;
  }

  std::shared_ptr<ClientCalls> calls_;
  CallOptions call_options_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_SERVER_VERBS_H_
