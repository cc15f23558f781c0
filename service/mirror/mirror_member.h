// A server that makes sums of rounds with others.

#ifndef TENSORKV_SERVICE_MIRROR_MIRROR_MEMBER_H_
#define TENSORKV_SERVICE_MIRROR_MIRROR_MEMBER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/alarms.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "kernels/backend.h"
#include "service/mirror/device_ranges.h"
#include "service/mirror/mirror_counts.h"
#include "service/mirror/mirror_group.h"
#include "service/mirror/mirror_sums.h"
#include "service/mirror/range_transport.h"
#include "service/mirror/sum_attempt.h"
#include "service/store/round_exchange.h"

namespace tensorkv {

// Announces rounds to their leader, does what that says, and keeps whole sums
// until it knows that they do not count, or are applied. Thread-safe.
class MirrorMember : public std::enable_shared_from_this<MirrorMember> {
 public:
  // Environment holds what outlives the calls that are under way.
  struct Environment {
    MirrorGroupPtr group;
    MirrorTimes times;
    std::shared_ptr<RangeTransport> transport;
    // Null where this server's tensors are not on one device that reaches
    // others.
    std::shared_ptr<DeviceRanges> device_ranges;
    Alarms* alarms = nullptr;
    Backend* backend = nullptr;  // the host's
    // Makes the sums.
    Executor* executor = nullptr;
    MirrorCounts* counts = nullptr;
    // May outlive this one: the server's next member goes on with them.
    std::shared_ptr<MirrorSums> sums = std::make_shared<MirrorSums>();
  };
  using Summed = std::function<void(std::vector<SummedRound>)>;

  explicit MirrorMember(Environment environment)
      : environment_(std::move(environment)) {}

  // Has the rounds summed as RoundExchange says.
  void Sum(const std::string& name_space, const RefPtr<BudgetAccount>& account,
           std::vector<RoundToSum> rounds, Summed summed);

  // Begins the leader's attempt: has memory for what comes. The response has no
  // outcomes then; or, if rounds do not wait here, one for each round, FAILED
  // for those, and the attempt has not begun. Errors: FailedPrecondition ·
  // those of SumAttempt::Create and DeviceRanges::Begin.
  absl::StatusOr<v1::BeginSumsResponse> Begin(
      const v1::BeginSumsRequest& message);
  // Makes the sums of an attempt that has begun, and keeps them. Calls `done`,
  // on any thread, when all are here or it has failed.
  void Run(const v1::RunSumsRequest& message,
           MirrorCallback<v1::RunSumsRequest> done);
  // Tells of each key which sum counted last.
  v1::PingResponse Ping(const v1::PingRequest& message) const;

  // Drops the sum of a round, which is in the key's value, as RoundExchange
  // says.
  void Applied(const std::string& name_space, absl::string_view key, Step step);

  // Drops what is kept of the key, which has gone, up to that version; its
  // round ends with Aborted.
  void Remove(const std::string& name_space, const std::string& key,
              Version version);

  // Drops what is kept of the namespace, which has gone; its rounds end with
  // Aborted.
  void Forget(const std::string& name_space);

  // Refuses rounds with `status` from now on, and ends with it those that no
  // sum is being made of and none is kept of. Waits until the others have
  // ended, so that a sum that counts at other servers has been given here, too;
  // returns false if they have not within the timeout. Goes on asking the
  // leader until Stop.
  bool Drain(const absl::Status& status, absl::Duration timeout);

  // Ends all rounds that wait with `status`, and those of later calls. Sums are
  // kept.
  void Stop(const absl::Status& status);

 private:
  // Rounds that were given together, or as many of them as a message has.
  struct Batch {
    std::string name_space;
    RefPtr<BudgetAccount> account;
    std::vector<RoundToSum> rounds;
    // Null once all rounds have ended: the batch may live on in calls to the
    // leader, and what hears of the ends keeps keys and the namespace.
    Summed summed;
    // Counts the rounds whose end `summed` has not been told.
    size_t num_left = 0;
    // By round: whether it has ended; an attempt whose sum counts and that this
    // server does not have.
    std::vector<bool> has_ended;
    std::vector<uint64_t> lacks;
    // Until when the leader is waited for; infinite while it answers.
    absl::Duration give_up = absl::InfiniteDuration();
  };
  using BatchPtr = std::shared_ptr<Batch>;
  using KeyName = MirrorSums::KeyName;

  // Waiting is a round of a batch that waits for its sum.
  struct Waiting {
    BatchPtr batch;
    size_t place = 0;
    uint64_t attempt = 0;  // the one that is under way; 0: none
    // Once it was taken out: what the round had, until its end is told.
    std::vector<ContributedTensor> contributed;

    const RoundToSum& round() const { return batch->rounds[place]; }
  };
  // Attempt is one that the leader has begun, until it has its sums or fails.
  struct Attempt {
    uint64_t id = 0;
    RefPtr<BudgetAccount> account;
    std::vector<KeyName> keys;
    std::vector<std::pair<Step, Version>> rounds;
    std::unique_ptr<SumAttempt> sums;
    RangeTransport* transport = nullptr;
    // Counts those of its rounds that wait for it; it goes with the last.
    size_t num_waiting = 0;
    // Its memory is there, and it has not begun to run.
    bool may_run = false;
    absl::Duration started;
    absl::Duration timeout;
    uint64_t sent_bytes = 0;
    uint64_t received_bytes = 0;
    MirrorCallback<v1::RunSumsRequest> done;
  };
  using AttemptPtr = std::shared_ptr<Attempt>;

  // Splits the rounds into batches that fit into a message.
  static std::vector<BatchPtr> BatchesOf(const std::string& name_space,
                                         const RefPtr<BudgetAccount>& account,
                                         std::vector<RoundToSum> rounds,
                                         const Summed& summed);
  // Has the batch's rounds wait, in place of former rounds of their keys, and
  // announces them.
  void SumBatch(const BatchPtr& batch);
  void Announce(const BatchPtr& batch);
  // Returns an announcement of the rounds of the batch that have not ended, and
  // adds their places to `places`.
  v1::AnnounceRoundsRequest RequestOf(const Batch& batch,
                                      std::vector<size_t>& places);
  void OnOutcomes(const BatchPtr& batch, const std::vector<size_t>& places,
                  const absl::StatusOr<v1::AnnounceRoundsResponse>& response);
  // Returns whether the leader may yet come back: then has scheduled another
  // Announce.
  bool MayAskAgain(const BatchPtr& batch, const absl::Status& status);
  // Takes note of the response, whose outcome `index` is the round's, and
  // returns how the round ends by it; nothing if it waits on.
  std::optional<absl::StatusOr<SumOfRound>> ApplyOutcome(
      Batch& batch, size_t place,
      const absl::StatusOr<v1::AnnounceRoundsResponse>& response, int index)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts one round less that waits for the attempt of `waiting`. Returns the
  // attempt's id if that was the last, for the caller to drop it, and else 0.
  uint64_t ReleaseAttempt(const Waiting& waiting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  using WaitingRounds = std::map<KeyName, Waiting>;
  // Takes the rounds out of `waiting_`, so that nobody else ends them. The
  // caller passes them to EndExtracted.
  std::vector<Waiting> ExtractWaiting(WaitingRounds::iterator first,
                                      WaitingRounds::iterator last)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls the batch's `summed` with the ends of rounds that wait no more, and
  // destroys it after the last.
  void ReportEnded(Batch& batch, std::vector<SummedRound> ended);
  // Ends rounds that ExtractWaiting has taken out, and drops the attempts that
  // only they have waited for.
  void EndExtracted(std::vector<Waiting>& rounds, const absl::Status& status);
  // Gives up the attempts, so that they have no effect any more. Passes over 0.
  void DropAttempts(const std::vector<uint64_t>& attempts);

  // Chooses the transport between devices, if the leader has said under which
  // id.
  absl::Status ChooseTransport(const AttemptPtr& attempt,
                               const std::string& communicator);
  void GatherAndSend(const AttemptPtr& attempt);
  void SendContributions(const AttemptPtr& attempt);
  void OnContributions(const AttemptPtr& attempt, absl::Status status);
  void SumAndSend(const AttemptPtr& attempt);
  void OnSums(const AttemptPtr& attempt, absl::Status status);
  // Forgets the attempt, and answers RunSums.
  void EndRun(const AttemptPtr& attempt, absl::Status status);
  void CountAttempt(const Attempt& attempt, const absl::Status& status);
  // Returns the round of the key, or null if no round of that step and version
  // waits.
  Waiting* FindWaiting(const KeyName& name, Step step, Version version)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsUnderWay(const Attempt& attempt);
  // Ends the attempt at both transports, so that none moves its ranges any
  // more.
  void EndTransfers(uint64_t attempt);
  // Allocates what comes, and has the transport expect it. Errors: those of
  // SumAttempt::Create.
  absl::Status PrepareMemory(Attempt& attempt,
                             std::vector<SumAttempt::Round> rounds);
  // Makes it the attempt of its rounds, and drops their former ones. Errors:
  // FailedPrecondition: a round does not wait any more.
  absl::Status AssignToRounds(const AttemptPtr& attempt);

  const Environment environment_;
  MirrorSums& sums_ = *environment_.sums;
  Mutex mutex_;
  // The error with which Sum refuses rounds; OK until Drain or Stop is called.
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  // True once Stop was called: the leader is not asked again.
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  WaitingRounds waiting_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, AttemptPtr> attempts_ ABSL_GUARDED_BY(mutex_);
  // Counts the rounds that are out of `waiting_`, and whose end is not
  // reported.
  size_t num_untold_ ABSL_GUARDED_BY(mutex_) = 0;
  CondVar all_told_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_MIRROR_MEMBER_H_
