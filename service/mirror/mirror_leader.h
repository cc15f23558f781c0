// Decides when servers make the sums of rounds, and which sums count.

#ifndef TENSORKV_SERVICE_MIRROR_MIRROR_LEADER_H_
#define TENSORKV_SERVICE_MIRROR_MIRROR_LEADER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/alarms.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "kernels/device_link.h"
#include "service/mirror/ask_members.h"
#include "service/mirror/device_meeting.h"
#include "service/mirror/mirror_group.h"

namespace tensorkv {

// Answers AnnounceRounds. A round is summed when all members have announced it,
// with one step and version; rounds that are ready at the same time are summed
// in one attempt, and attempts of a namespace follow one another. Sums count
// once all members have them. The leader remembers which count, for members
// that have not heard it and announce the round again; members tell it what a
// former leader has told them. Thread-safe.
class MirrorLeader : public std::enable_shared_from_this<MirrorLeader> {
 public:
  struct Environment {
    MirrorGroupPtr group;
    MirrorTimes times;
    // Outlives all calls.
    Alarms* alarms = nullptr;
    // These outlive the calls before Stop, and the executor's tasks.
    Executor* executor = nullptr;
    // Null: ranges go by calls of the servers, whatever the others have.
    DeviceLink* link = nullptr;
    // Hears why ranges do not go by the link; may be null.
    NotOnDevices not_on_devices;
  };

  explicit MirrorLeader(Environment environment);

  // Calls `done` once each round has an outcome; or, some time after the first
  // has one, with the others WAITING: the member is to announce those again.
  void Announce(const v1::AnnounceRoundsRequest& request,
                MirrorCallback<v1::AnnounceRoundsRequest> done);
  // Forgets the key, which this server has deleted, up to that version, and
  // fails its rounds.
  void Remove(const std::string& name_space, const std::string& key,
              uint64_t version);
  // Forgets the namespace, which has gone: rounds that were announced fail, and
  // sums under way do not count.
  void Forget(const std::string& name_space);
  // Ends all calls that wait with `status`, and later ones too.
  void Stop(const absl::Status& status);
  // Returns of how many keys, in all namespaces, something is kept.
  size_t num_keys() const;

 private:
  using State = v1::RoundOutcome::State;

  // An AnnounceRounds that has not been answered.
  struct Call {
    uint32_t from = 0;
    std::string name_space;
    v1::GpuLink link;
    // Devices have failed an attempt with its rounds: none tries them again.
    bool has_failed_on_devices = false;
    v1::AnnounceRoundsResponse response;
    size_t num_open = 0;
    MirrorCallback<v1::AnnounceRoundsRequest> done;
    Alarms::Id patience_alarm = 0;  // 0: none is scheduled
    // Some rounds have ended: what is known is answered after the delay.
    bool is_partial = false;
    absl::Duration partial_delay;
    Alarms::Id partial_alarm = 0;  // 0: none was scheduled
    bool is_answered = false;
  };
  using CallPtr = std::shared_ptr<Call>;

  // A round that a member has announced, at `place` in its call.
  struct Announced {
    CallPtr call;
    int place = 0;
    v1::AnnouncedRound round;
  };
  struct Summed {
    uint64_t attempt = 0;
    uint64_t step = 0;
    uint64_t version = 0;
  };
  struct Key {
    // By member; without a call: it has announced nothing.
    std::vector<Announced> announced;
    bool is_under_way = false;
    // Sums under way of a version up to this are of a key that has gone.
    uint64_t removed = 0;
    Summed last;  // of attempt 0: none
  };
  struct Attempt {
    uint64_t id = 0;
    std::string name_space;
    // By key, those of each member.
    std::map<std::string, std::vector<Announced>> rounds;
    // The ids of the members' links, if ranges go from device to device; then
    // the id under which these meet.
    std::vector<uint64_t> links;
    std::string communicator;
    // All have begun, and were told to exchange.
    bool has_run = false;
    // Its namespace has gone meanwhile. Under the mutex.
    bool is_forgotten = false;
  };
  using AttemptPtr = std::shared_ptr<Attempt>;
  using Keys = std::map<std::string, Key>;
  struct NameSpace {
    Keys keys;
    std::deque<std::string> ready;
    AttemptPtr attempt;
  };
  using Calls = std::vector<CallPtr>;

  // Answers those calls all of whose rounds have ended, and schedules partial
  // answers to the others. SetOutcome ends a round, and adds its call to
  // `to_answer` where the call is to be answered, once the mutex is released.
  void AnswerCalls(const Calls& to_answer) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetOutcome(const Announced& announced, State state, Calls& to_answer,
                  uint64_t attempt = 0,
                  const absl::Status& status = absl::OkStatus())
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddAnnounced(NameSpace& name_space, Announced announced,
                    Calls& to_answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether all members have announced the key, and none sums it.
  static bool IsReady(const Key& key) {
    return !key.is_under_way &&
           std::all_of(
               key.announced.begin(), key.announced.end(),
               [](const Announced& each) { return each.call != nullptr; });
  }
  // Ends announced rounds whose sum counts already. Then, if all members have
  // announced the key, makes it ready, or fails it if they disagree.
  void UpdateKey(NameSpace& name_space, const std::string& name, Key& key,
                 Calls& to_answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailAnnounced(Key& key, const absl::Status& status, Calls& to_answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Remembers that the sum counts, as a member says, if its round is announced.
  void LearnCounted(Key& key, const v1::CountedRound& counted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Announces again the rounds that were under way, unless `status` is an
  // error: then ends them with it.
  void Reannounce(Key& key, std::vector<Announced>& announced,
                  const absl::Status& status, Calls& to_answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Erases the key if nothing is known of it. Returns the next key.
  static Keys::iterator EraseIfIdle(Keys& keys, Keys::iterator key);
  void FailAllAnnounced(NameSpace& name_space, const absl::Status& status,
                        Calls& to_answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Errors: FailedPrecondition, Aborted: members have announced other rounds.
  absl::Status CheckAgree(const std::string& key,
                          const std::vector<Announced>& announced) const;
  // Moves rounds that are ready into the attempt, as many as one takes.
  void TakeReady(NameSpace& name_space, Attempt& attempt) const;
  // Returns the next attempt, if there is one to make now.
  AttemptPtr TakeNext(const std::string& name_space)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does nothing if `attempt` is null.
  void Start(const AttemptPtr& attempt);
  void AskToBegin(const AttemptPtr& attempt);
  // Returns the ids of the members' links; empty: their devices cannot meet.
  std::vector<uint64_t> LinksOf(const Attempt& attempt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether two servers are on one GPU, and tells which.
  bool ShareAGpu(const std::vector<Announced>& servers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reports the reason, unless one of its code was reported in the last hour.
  void TellWhyNotOnDevices(const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Chooses how the attempt's ranges go. Returns whether it may begin now; else
  // the attempts between devices before it have to end first.
  bool Enqueue(const AttemptPtr& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the attempts to start now that this one is over; some may be null.
  std::vector<AttemptPtr> TakeNextAfter(const Attempt& attempt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the id by which the attempt's devices meet, a new one if they have
  // none. Errors: those of DeviceLink.
  absl::StatusOr<std::string> CommunicatorOf(const Attempt& attempt);
  void OnBegun(const AttemptPtr& attempt,
               const MirrorReplies<v1::BeginSumsRequest>& begun);
  void EndAttempt(const AttemptPtr& attempt, absl::Status status);
  void EndRound(const Attempt& attempt, const std::string& name,
                const std::vector<Announced>& announced,
                const absl::Status& status, Calls& to_answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Attempts the rounds again by calls, after devices have failed the attempt:
  // no sum of it counts. Those that wait in the queue go by calls too.
  void RepeatByCalls(const AttemptPtr& attempt, const absl::Status& why);
  // Fails the rounds `gone`, by their places, which do not wait at a member any
  // more, and attempts the others anew.
  void RetryWithout(const AttemptPtr& attempt,
                    const std::map<int, absl::Status>& gone);
  void SchedulePatienceAlarm(const CallPtr& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Pings the members that have not announced rounds of the call.
  void OnPatience(const CallPtr& call);
  // Answers the call, by what the members that it waits for have answered to a
  // Ping about some keys.
  void OnPings(const CallPtr& call, const v1::PingRequest& ping,
               const MirrorReplies<v1::PingRequest>& replies);
  // Answers a call some of whose rounds have ended, so that the member goes on
  // with these and announces the rest again.
  void AnswerPartially(const CallPtr& call);
  void SchedulePartialAnswer(const CallPtr& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnPartialDelay(const CallPtr& call);
  // Returns whether a round of the call is being summed, or is ready to be.
  static bool IsBeingSummed(const NameSpace& name_space, const CallPtr& call);
  // Ends the call's rounds that wait for members: FAILED if such a member did
  // not answer, else WAITING.
  void EndWaiting(NameSpace& name_space, const CallPtr& call,
                  const MirrorReplies<v1::PingRequest>& pings, Calls& to_answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Environment environment_;
  const MirrorGroup& group_ = *environment_.group;
  const MirrorTimes& times_ = environment_.times;
  Alarms& alarms_ = *environment_.alarms;
  Executor& executor_ = *environment_.executor;
  mutable Mutex mutex_;
  absl::Status stopped_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_attempt_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, NameSpace> namespaces_ ABSL_GUARDED_BY(mutex_);
  // Queues attempts between devices: the first is under way.
  std::deque<AttemptPtr> queue_ ABSL_GUARDED_BY(mutex_);
  DeviceMeeting meeting_ ABSL_GUARDED_BY(mutex_);
  // By code: until when TellWhyNotOnDevices reports nothing.
  std::map<absl::StatusCode, absl::Duration> told_until_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_MIRROR_LEADER_H_
