// Keeps a worker a member of its group, and has what it pushes arrive.

#ifndef TENSORKV_CLIENT_INTERNAL_WORKER_WORKER_RECOVERY_H_
#define TENSORKV_CLIENT_INTERNAL_WORKER_WORKER_RECOVERY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/call_threads.h"
#include "client/client.h"
#include "client/internal/calls/task.h"
#include "client/internal/calls/task_mutex.h"
#include "client/internal/retry/retry_loop.h"
#include "client/internal/transfer/trimmed_pool.h"
#include "client/internal/worker/open_contributions.h"
#include "client/internal/worker/push_order.h"
#include "client/leave_cause.h"
#include "client/worker_options.h"

namespace tensorkv {

class LeaseRenewal;

// Keeps what a worker is, and what it has pushed until that has become part of
// the keys. Where a call has failed, it does what lets the call be made again:
// joins again, and pushes what the server may lack. Its tasks wait as their
// attempt says. Thread-safe.
class WorkerRecovery {
 public:
  using Contribution = OpenContributions::Contribution;

  // Joined holds what the worker has become.
  struct Joined {
    Worker worker;
    uint64_t incarnation = 0;  // of the server that has accepted it
  };
  // An attempt at a verb.
  struct Attempt {
    absl::Duration end;       // of the verb
    uint64_t recoveries = 0;  // that had begun before the attempt
    Joined as;
    SharedCanceller canceller;
    // Where what has to block runs; null: on the thread that runs the task.
    CallThreads* threads = nullptr;
  };

  // Joins as the options say. Waits for a former self to lose its lease, until
  // `attempt` ends. What it is given outlives the task.
  static Task<absl::StatusOr<JoinReply>> Join(
      const Client& client, const WorkerOptions& options,
      uint64_t namespace_uid, const RetryEnvironment& environment,
      const Attempt& attempt);

  // `client`, which has joined with the reply `joined`, outlives it.
  WorkerRecovery(Client& client, const WorkerOptions& options,
                 RetryEnvironment environment,
                 const NamespaceStatus& name_space, const JoinReply& joined);
  // Unless the worker has left, says that it is lost, if it can do so within a
  // few seconds.
  ~WorkerRecovery();

  // These do what those of WorkerClient do.
  absl::Status Leave(LeaveCause cause);
  absl::Status membership() const;
  Task<absl::Status> Rejoin(const Attempt& attempt);

  // Copies the tensors where the options say so.
  absl::Status Copy(std::vector<PushEntry>& entries) const;
  // Encodes the entries, and keeps them in open() from before they are pushed.
  // Copies those that are not encoded where `may_copy`, and the options say so.
  // `left` is as Client::Encode has it.
  // `life` is that of open() when the push was begun.
  absl::StatusOr<Contribution> Keep(uint64_t life, Step step,
                                    std::vector<PushEntry> entries,
                                    bool may_copy,
                                    const SharedCanceller& canceller,
                                    Residuals& left);
  // Takes in the reply to a push of the contribution. What is carried is kept
  // until long after the caller's pull, and so copied.
  // Errors: ResourceExhausted.
  absl::Status TakeIn(const PushReply& reply, const Contribution& contribution);
  OpenContributions& open() { return open_; }
  PushOrder& order() { return order_; }
  // Returns whether the server may carry what is late: the replies to pushes
  // say so, and those to pulls do not.
  bool may_carry() const { return may_carry_; }

  // Returns what the worker is at present.
  WorkerState state() const;

  // Return the first attempt at a verb, and the next one.
  Attempt Begin(SharedCanceller canceller,
                std::optional<absl::Duration> timeout,
                CallThreads* threads = nullptr) const;
  Attempt NextAttempt(const Attempt& attempt) const;
  absl::Duration TimeLeft(const Attempt& attempt) const {
    return attempt.end - environment_.now();
  }
  // Returns the client, whose calls end with the attempt's verb.
  Client WithDeadline(const Attempt& attempt, const Client& client) const;

  // Makes one attempt as `worker`, as tensors or rows, whichever they are.
  static Task<absl::StatusOr<PushReply>> PushOnce(
      Client client, const Worker& worker, Step step,
      std::vector<PushEntry> entries, CallThreads* threads);
  // Returns OK if the failed call may be made again; else why not.
  Task<absl::Status> Repair(const absl::Status& cause, const Attempt& attempt);
  // Makes sure that the server has the contribution, whose push has failed with
  // `cause`, and returns OK; else forgets the contribution.
  Task<absl::Status> RetryContribution(const Contribution& contribution,
                                       const absl::Status& cause,
                                       const Attempt& attempt);

  // Does what that of WorkerClient does.
  Step last_dropped_step() const { return last_dropped_step_; }

  // Returns whether the worker makes steps again of which servers may have
  // later ones.
  bool IsRepeating() const { return has_rounds_ && open_.IsRepeating(); }
  // Waits for the rounds of these keys that have contributions which are kept.
  // A Pull would wait for later ones, too, which servers that have not gone
  // back have of this worker, and which the group comes to only after these.
  Task<absl::Status> AwaitRepeated(const std::vector<std::string>& keys,
                                   const Attempt& attempt,
                                   const Client& waiter);

 private:
  Joined joined() const;
  // Joins again, in place of what the worker has been. REQUIRES:
  // recovery_mutex_ is held, as for all that it says of.
  Task<absl::Status> JoinAgain(const Attempt& attempt);

  // Returns whether it helps to push again the contributions that are open, and
  // does no harm.
  bool MayBePushedAgain(const absl::Status& status) const;

  // Joins again if need be, and pushes all contributions that are open, or in
  // MODE_ASYNC only `own`, that of the call which failed, if it pushes.
  Task<absl::Status> Recover(const absl::Status& cause, const Attempt& attempt,
                             const Contribution* own = nullptr);
  // Does that, holding recovery_mutex_.
  Task<absl::Status> RecoverAlone(const absl::Status& cause,
                                  const Attempt& attempt,
                                  const Contribution* own);
  // Makes attempts to recover until one succeeds, none may, or time is over.
  // REQUIRES: recovery_mutex_ is held.
  Task<absl::Status> RecoverInTime(const absl::Status& cause,
                                   const Attempt& attempt,
                                   const Contribution* own);
  // Makes one attempt to recover, where `cause` made it necessary or shows a
  // restart; sets `is_member` when it has joined. REQUIRES: recovery_mutex_ is
  // held.
  Task<absl::Status> RecoverOnce(const absl::Status& cause,
                                 const Attempt& attempt, bool& is_member,
                                 const Contribution* own);
  // Returns whether another attempt may do better than one that has ended so.
  bool MayRecoverAfter(const absl::Status& status, bool is_member) const;
  // REQUIRES, as the next two: recovery_mutex_ is held.
  Task<absl::Status> PushWhatMayBeMissing(const Attempt& attempt,
                                          const Contribution* own);
  Task<absl::Status> PushAgain(Client client, const Contribution& contribution,
                               CallThreads* threads);
  Task<absl::Status> PushKeysAgain(Client client,
                                   const Contribution& contribution,
                                   CallThreads* threads);
  // Keeps what the reply says to be carried apart from the contribution.
  absl::Status KeepCarried(const PushReply& reply,
                           const Contribution& contribution);
  // Pushes some entries of the contribution again as `worker`, to hear what is
  // carried.
  Task<absl::Status> FindCarried(const Contribution& contribution,
                                 const std::vector<PushEntry>& entries,
                                 const Worker& worker, Client pusher,
                                 CallThreads* threads);
  // Forgets the part, of one key, for which no round has a use.
  void Forget(const Contribution& part, const absl::Status& status);

  Client& client_;
  const WorkerOptions options_;
  const RetryEnvironment environment_;
  // True if the server knows a contribution again that it has.
  const bool is_repeatable_;
  const bool has_rounds_;
  const bool may_carry_;
  const uint64_t namespace_uid_;
  const TrimmedPool copies_;
  OpenContributions open_;
  PushOrder order_;
  // Changes in one step with what open_ knows of it. So a push that is signed
  // by the worker of an attempt, and not forgotten after that began, is made
  // for the state of that server.
  mutable Mutex joined_mutex_;
  Joined joined_ ABSL_GUARDED_BY(joined_mutex_);

  // True from Leave to Rejoin: the worker does not join again by itself.
  std::atomic<bool> has_left_ = false;
  std::atomic<LeaveCause> leave_cause_ = LeaveCause::kLost;

  // Held by the one recovery at a time, while it makes its calls.
  TaskMutex recovery_mutex_;
  std::atomic<uint64_t> recoveries_begun_ = 0;
  std::atomic<Step> last_dropped_step_ = 0;
  uint64_t last_that_succeeded_ = 0;  // guarded by recovery_mutex_

  std::unique_ptr<LeaseRenewal> lease_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_WORKER_WORKER_RECOVERY_H_
