// A client that is a member of its namespace.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<WorkerClient> worker,
//                    WorkerClient::Join({.name_space = "train"},
//                                       {.name = "worker-3"}));
//   for (Step step = worker->Resume(); step <= last; step = worker->Resume()) {
//     absl::StatusOr<PullReply> weights =
//         worker->PushPull(step, Gradients(step));
//     if (worker->state() == WorkerState::kGoneBack) continue;
//     RETURN_IF_ERROR(weights.status());
//   }
//   RETURN_IF_ERROR(worker->Leave());

#ifndef TENSORKV_CLIENT_WORKER_CLIENT_H_
#define TENSORKV_CLIENT_WORKER_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/call_threads.h"
#include "client/client.h"
#include "client/leave_cause.h"
#include "client/worker_options.h"

namespace tensorkv {

struct RetryEnvironment;
class WorkerRecovery;

// Joins when it is made, renews the lease from a thread of its own. Leave says
// that it is done; one that goes without counts as lost, at once. Thread-safe.
//
// A group of fixed size waits for a worker that was lost. Verbs that wait for
// one that has left end with WORKER_LEFT: the group is whole or does not go on,
// unless its namespace says otherwise.
//
// The verbs of a step recover by themselves from whatever happens to workers
// and connections: when a round fails because another worker was lost, when
// this one was taken for lost, or when a reply does not come, the steps that
// are not complete are pushed again, and the call goes on. What the server has
// of them already counts once. A training loop therefore needs no branch on
// errors: one that comes out is final. Among them are SERVER_RESTARTED where
// the state is gone, and DeadlineExceeded after step_timeout.
//
// When the server was restarted from a checkpoint, the state is an earlier one.
// The verb that finds it so joins again; what was pushed for the state that is
// gone is forgotten, and what encoding has left out too. A verb that pushes
// ends with SERVER_RESTARTED then, and so do all others that push until
// Resume(), which tells the step to go back to: a loop that resumes at that
// error, and reads all keys after, goes on. Reads bring the state that is
// there. Leave when a checkpoint has the last step: a worker that has left does
// not come back to repeat it. docs/protocol.md says more.
//
// Pushes that have a key in common are made one after another, in the order in
// which they were begun, whatever the thread: none passes over a step of
// another. A PushPull counts as under way until it has its values, where none
// was queued behind a push before; then it is two calls, and the next push is
// made once the first has ended.
//
// To push again it keeps what was pushed: the entries of a step, from the
// moment they are pushed until a PushPull or Pull of their keys has succeeded,
// or the server holds so many later steps of the key as it has rounds open.
// Tensors are shared, and nobody may write their elements before, unless
// WorkerOptions::keeps_copies. In namespaces of MODE_ASYNC a step is kept until
// its call ends; there a push whose reply is lost for longer than
// ClientOptions::timeout is an error, since it may be applied.
//
// A worker that its group has gone on without may find rounds closed: what it
// pushes to them is dropped, and step() is ahead. With LATE_CARRY a later round
// holds it: the entries are then copied, and kept until that round has closed,
// as far as later calls of this worker show; a PushPull is two calls there.
class WorkerClient {
 public:
  // Errors: those of Client::Connect, Client::Join and DescribeNamespace ·
  // ResourceExhausted (LIMIT_REACHED): the system has no thread to give.
  static absl::StatusOr<std::unique_ptr<WorkerClient>> Join(
      const ClientOptions& client_options, const WorkerOptions& options);
  // Makes `client`, which is no worker yet, the worker. It has no canceller.
  static absl::StatusOr<std::unique_ptr<WorkerClient>> Join(
      std::unique_ptr<Client> client, const WorkerOptions& options);
  // Joins with a clock of the caller's, for tests.
  static absl::StatusOr<std::unique_ptr<WorkerClient>> Join(
      std::unique_ptr<Client> client, const WorkerOptions& options,
      const RetryEnvironment& environment);

  // Unless it has left, says that the worker is lost, if it can do so within a
  // few seconds.
  ~WorkerClient();

  // Returns the step to push next, asked between two steps: the one after the
  // last that this worker has completed. A worker that has come back begins
  // with the step that its former self was in, and pushes all of it; what of
  // that has arrived is not needed again, but does no harm.
  Step step() const;
  // Returns step(), which the worker makes next. Until a worker that has come
  // back calls it, pulls fail where it must push that step again: read first
  // weights with a Client before it joins.
  Step Resume();
  // Returns what the worker is at present.
  WorkerState state() const;

  // Contributes to a step, and returns the values of these keys when the step
  // has become part of them. Steps count from 1. Errors, of all that push:
  // InvalidArgument for step 0, but in MODE_ASYNC, where it is counted in none.
  absl::StatusOr<PullReply> PushPull(Step step, std::vector<PushEntry> entries,
                                     const ReadOptions& options = {});
  absl::StatusOr<Value> PushPull(Step step, absl::string_view key,
                                 Tensor contribution);

  // These do PushPull in two calls, for any part of the keys each. The steps of
  // a key are pushed in their order. Pull waits for all that this worker has
  // pushed to these keys. Where the entries have ids they are pushed as rows
  // (see Client), which PullRows reads.
  absl::Status Push(Step step, std::vector<PushEntry> entries,
                    const VerbOptions& options = {});
  absl::StatusOr<PullReply> Pull(const std::vector<std::string>& keys,
                                 const ReadOptions& options = {});
  absl::StatusOr<PullReply> PullRows(std::vector<PullEntry> entries,
                                     const VerbOptions& options = {});

  // These do what the verbs do, for callers who do not wait, as Client's do:
  // `done` gets the outcome, on any thread, perhaps before this returns. What
  // has to block runs on `threads`. With WorkerOptions::keeps_copies tensors
  // are copied before this returns. The results of a push that was made again
  // tell its step alone. `done` may start verbs of the worker, but must not
  // wait for any. The worker and `threads` outlive the call.
  void StartPush(Step step, std::vector<PushEntry> entries,
                 const VerbOptions& options, CallThreads& threads,
                 Client::Done<PushReply> done);
  void StartPushPull(Step step, std::vector<PushEntry> entries,
                     const ReadOptions& options, CallThreads& threads,
                     Client::Done<PullReply> done);
  void StartPull(const std::vector<std::string>& keys,
                 const ReadOptions& options, CallThreads& threads,
                 Client::Done<PullReply> done);
  void StartPullRows(std::vector<PullEntry> entries, const VerbOptions& options,
                     CallThreads& threads, Client::Done<PullReply> done);

  // Returns when all workers of the group have come to `barrier`. A worker that
  // is restarted comes again to barriers that the others have left behind: meet
  // where no round waits for it, such as before the first step.
  absl::Status Barrier(absl::string_view barrier,
                       const VerbOptions& options = {});

  // Returns the client for all other verbs. Its calls are signed as this
  // worker's; pushes of it are its user's to make again.
  Client& client() { return *client_; }
  // Returns 0 if client() has left by itself.
  uint32_t rank() const;
  uint64_t epoch() const;
  // Returns whether the worker has come back: the worker of its name had been
  // lost when this one joined.
  bool was_lost() const { return was_lost_; }

  // Returns the highest step of which a contribution was dropped, since its
  // round had closed without it; 0 if none was since the server went back.
  Step last_dropped_step() const;

  // Ends the membership, within a few seconds. After it pushes and barriers are
  // refused, calls that wait end with NOT_MEMBER, and reads are those of a
  // reader; Rejoin makes it a member again.
  // Errors: those of Client::Leave; it may be called again.
  absl::Status Leave(LeaveCause cause = LeaveCause::kDone);

  // Returns OK, or why this is a member no more: what the server said to the
  // latest renewal that it answered. Verbs join again when they need to.
  absl::Status membership() const;

  // Becomes a member again at once, in place of its own epoch, with a new one,
  // also of a server that was restarted.
  // Errors: those of Client::Join · Cancelled.
  absl::Status Rejoin(const VerbOptions& options = {});

 private:
  struct Call;

  WorkerClient(std::unique_ptr<Client> client, bool was_lost,
               std::unique_ptr<WorkerRecovery> recovery);

  const std::unique_ptr<Client> client_;
  const bool was_lost_;
  const std::unique_ptr<WorkerRecovery> recovery_;  // last: uses the client
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_WORKER_CLIENT_H_
