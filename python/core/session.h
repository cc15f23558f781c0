// Connects a Python client to a server or a store, without anything of Python.

#ifndef TENSORKV_PYTHON_CORE_SESSION_H_
#define TENSORKV_PYTHON_CORE_SESSION_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/client.h"
#include "client/worker_client.h"
#include "contract/requests.h"
#include "python/core/call_scope.h"
#include "python/core/shared_change_writer.h"

namespace tensorkv::python {

// A client, which may become a worker, of a server or of a store in this
// process. Thread-safe but for Join.
//
// Pushed tensors are read during the call alone: a store in this process, which
// would read them later, gets copies.
class Session {
 public:
  // Errors: those of Client::Connect.
  static absl::StatusOr<std::shared_ptr<Session>> Connect(
      const ClientOptions& options);
  // Makes a session with a store of its own. `num_threads` as
  // LocalConnectionOptions has it.
  static std::shared_ptr<Session> Embed(int num_threads);

  bool is_embedded() const { return is_embedded_; }
  Client& client() { return worker_ != nullptr ? worker_->client() : *client_; }
  // Returns the client, for one call with these bounds.
  Client Bounded(const CallBounds& bounds);
  // Returns null before Join.
  WorkerClient* worker() { return worker_.get(); }
  // Returns whether the server of a worker has gone back to an earlier state,
  // and has not resumed since.
  bool has_gone_back() const {
    return worker_ != nullptr && worker_->state() == WorkerState::kGoneBack;
  }

  // Becomes a worker, which is to keep copies of what it pushes.
  absl::Status Join(const ClientOptions& client_options,
                    const WorkerOptions& options);

  // Ends the membership: it is done with its steps, or lost. Does nothing for
  // who is no worker.
  void Leave(bool is_lost);

  // Returns the step that the worker makes next. The worker joins its server
  // again first where that was restarted. Errors: those of
  // WorkerClient::Rejoin; FailedPrecondition for who is no worker.
  absl::StatusOr<Step> Resume(const CallBounds& bounds);

  // Creates keys, and returns their versions, and the snapshot that
  // `publish_as` asks for.
  absl::StatusOr<InitReply> Init(std::vector<InitEntry> entries,
                                 OnExisting on_existing,
                                 std::optional<PublishAs> publish_as,
                                 const CallBounds& bounds);
  // Sets states of keys, and returns the versions of the keys.
  absl::StatusOr<SetStateReply> SetState(std::vector<SetStateEntry> entries,
                                         const CallBounds& bounds);
  absl::StatusOr<GetStateReply> GetState(std::vector<GetStateEntry> entries,
                                         absl::Span<const Destination> into,
                                         const CallBounds& bounds);
  // A worker's replies have no results: what is lost is pushed again. Of the
  // options it takes the step alone. Errors: also FailedPrecondition for a
  // worker that is to take a snapshot.
  absl::StatusOr<PushReply> Push(std::vector<PushEntry> entries,
                                 const PushOptions& options,
                                 const CallBounds& bounds);
  // Pushes copies of the tensors by `changes`, which holds them then. Errors:
  // also FailedPrecondition for a worker.
  absl::StatusOr<PushReply> PushChanges(std::vector<PushEntry> entries,
                                        const PushOptions& options,
                                        SharedChangeWriter& changes,
                                        const CallBounds& bounds);
  absl::StatusOr<PullReply> PushPull(std::vector<PushEntry> entries, Step step,
                                     absl::Span<const Destination> into,
                                     const CallBounds& bounds);
  absl::StatusOr<PullReply> Pull(PullRequest request,
                                 absl::Span<const Destination> into,
                                 const CallBounds& bounds);
  // These do what Push and Pull do. The ids are the call's own.
  absl::StatusOr<PushReply> PushRows(std::vector<PushEntry> entries,
                                     const PushOptions& options,
                                     const CallBounds& bounds);
  absl::StatusOr<PullReply> PullRows(PullRowsRequest request,
                                     const CallBounds& bounds);
  absl::Status Barrier(const std::string& name, const CallBounds& bounds);

 private:
  explicit Session(bool is_embedded) : is_embedded_(is_embedded) {}

  // Returns the reply of a client. Its tensors share no memory with a store.
  absl::StatusOr<PullReply> Own(absl::StatusOr<PullReply> reply,
                                absl::Span<const Destination> into = {}) const;

  const bool is_embedded_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<WorkerClient> worker_;
};

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_SESSION_H_
