// Connects a Python client to a server or a store, without using Python.

#ifndef TENSORKV_PYTHON_CORE_SESSION_H_
#define TENSORKV_PYTHON_CORE_SESSION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/call_threads.h"
#include "client/client.h"
#include "client/worker_client.h"
#include "contract/requests.h"
#include "python/core/call_scope.h"

namespace tensorkv::python {

// A client, which may become a worker, of a server or of a store in this
// process. Thread-safe but for Join.
//
// Pushed tensors are read during the call alone: a store in this process, which
// would read them later, gets copies.
class Session {
 public:
  // Connects in the background, as Client::Connect does, with its errors.
  static absl::StatusOr<std::shared_ptr<Session>> Connect(
      const ClientOptions& options);
  // Makes a session with a store of its own. `num_threads` as
  // LocalConnectionOptions has it.
  static std::shared_ptr<Session> Embed(int num_threads);

  bool is_embedded() const { return is_embedded_; }
  Client& client() { return worker_ != nullptr ? worker_->client() : *client_; }
  // Returns the client, for one call with these bounds.
  Client Bounded(const CallBounds& bounds);
  // Null before Join.
  WorkerClient* worker() { return worker_.get(); }
  // Returns whether the server of a worker has gone back to an earlier state,
  // and nobody has asked for the next step since.
  bool has_gone_back() const {
    return worker_ != nullptr && worker_->has_gone_back();
  }

  // Becomes a worker: connects and joins as the options say. A session that
  // could not join stays what it was. The options are to have keeps_copies, as
  // callers may write what they have pushed.
  absl::Status Join(const ClientOptions& client_options,
                    const WorkerOptions& options);

  // Ends the membership of a worker, which is done with its steps, or lost.
  // Waits for the server a few seconds at most, and reports no error. Does
  // nothing for a session that is no worker.
  void Leave(bool is_lost);

  // Returns the step that the worker makes next. The worker joins its server
  // again first where that was restarted. Errors: those of
  // WorkerClient::Rejoin; NotFound (namespace) · FailedPrecondition for a
  // session that is no worker.
  absl::StatusOr<Step> Resume(const CallBounds& bounds);

  // Creates keys, and returns their versions.
  absl::StatusOr<InitReply> Init(std::vector<InitEntry> entries,
                                 OnExisting on_existing,
                                 const CallBounds& bounds);
  // Pushes the entries. The reply to a worker has no results: what is lost is
  // pushed again.
  absl::StatusOr<PushReply> Push(std::vector<PushEntry> entries, Step step,
                                 const CallBounds& bounds);
  absl::StatusOr<PullReply> PushPull(std::vector<PushEntry> entries, Step step,
                                     absl::Span<const Destination> into,
                                     const CallBounds& bounds);
  absl::StatusOr<PullReply> Pull(PullRequest request,
                                 absl::Span<const Destination> into,
                                 const CallBounds& bounds);
  // Returns whether StartPush, StartPushPull and StartPull may be called: not
  // by a worker, whose calls recover, nor for a store in this process.
  bool may_start() const { return !is_embedded_ && worker_ == nullptr; }
  // These do Push, PushPull and Pull for callers who do not wait; see
  // Client::StartPush. The session outlives the call.
  void StartPush(std::vector<PushEntry> entries, Step step,
                 const CallBounds& bounds, Client::Done<PushReply> done);
  void StartPushPull(std::vector<PushEntry> entries, Step step,
                     absl::Span<const Destination> into,
                     const CallBounds& bounds, Client::Done<PullReply> done);
  void StartPull(PullRequest request, absl::Span<const Destination> into,
                 const CallBounds& bounds, Client::Done<PullReply> done);
  // Push and pull rows as Push and Pull do. Nobody may write the ids of the
  // entries during a call.
  absl::StatusOr<PushReply> PushRows(std::vector<PushEntry> entries, Step step,
                                     const CallBounds& bounds);
  absl::StatusOr<PullReply> PullRows(std::vector<PullEntry> entries,
                                     const CallBounds& bounds);
  // Replaces the reply's tensors by copies if they may share memory with a
  // store in this process. Errors: ResourceExhausted.
  absl::Status Unshare(PullReply& reply) const;
  absl::Status Barrier(const std::string& name, const CallBounds& bounds);

 private:
  // How many started calls of one kind may block at a time.
  static constexpr int kMaxStartedThreads = 32;

  explicit Session(bool is_embedded) : is_embedded_(is_embedded) {}

  const bool is_embedded_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<WorkerClient> worker_;
  // Pulls may wait for pushes, which wait for no other call: these have threads
  // of their own.
  CallThreads waiting_threads_{kMaxStartedThreads};
  CallThreads pushing_threads_{kMaxStartedThreads};
};

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_SESSION_H_
