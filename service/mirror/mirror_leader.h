// Says when the servers make the sums of a namespace's rounds, and which sums
// count.

#ifndef TENSORKV_SERVICE_MIRROR_MIRROR_LEADER_H_
#define TENSORKV_SERVICE_MIRROR_MIRROR_LEADER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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

// The side of Announce that is called. A round's sum is attempted when all
// members have announced it, with one step and version; rounds that are ready
// at the same time are attempted together, and attempts of a namespace follow
// one another. Sums count once all members have them, and as long as this
// lives it remembers which: who has them and has not heard so announces the
// round again. What a former leader has told some members, these tell this one.
// Thread-safe.
class MirrorLeader : public std::enable_shared_from_this<MirrorLeader> {
 public:
  struct Environment {
    MirrorGroupPtr group;
    MirrorTimes times;
    // Outlive all calls.
    Alarms* alarms = nullptr;
    // These outlive the calls before Stop, and the executor's tasks.
    Executor* executor = nullptr;
    // Null: ranges go by calls of the servers, whatever the others have.
    DeviceLink* link = nullptr;
    // Hears why ranges do not go by the link; may be null.
    NotOnDevices not_on_devices;
  };

  explicit MirrorLeader(Environment environment);

  void Announce(const MirrorRequest& request, MirrorCallback done);

  // The key has gone from this server, and will from the others: nothing is
  // kept of it, up to that version.
  void Remove(const std::string& name_space, const std::string& key,
              uint64_t version);

  // The namespace has gone: what was announced fails, what is under way does
  // not count, and which sums have counted says nothing any more.
  void Forget(const std::string& name_space);

  // All calls that wait end with `status`, and so do later ones.
  void Stop(const absl::Status& status);

  // Returns of how many keys, in all namespaces, something is kept.
  size_t num_keys() const;

 private:
  using State = mirror::v1::Outcome::State;

  // An Announce that has not been answered.
  struct Call {
    uint32_t from = 0;
    std::string name_space;
    mirror::v1::Link link;
    // In an attempt with some of its rounds, of which none takes that way
    // again.
    bool has_failed_on_devices = false;
    MirrorResponse response;
    size_t num_open = 0;
    MirrorCallback done;
    Alarms::Id patience_alarm = 0;  // 0: none is scheduled
    // Some rounds have ended: what is known is answered after the delay.
    bool is_partial = false;
    absl::Duration partial_delay;
    Alarms::Id partial_alarm = 0;  // 0: none was scheduled
    bool is_answered = false;
  };
  using CallPtr = std::shared_ptr<Call>;

  struct Announced {
    CallPtr call;
    int place = 0;
    mirror::v1::Round round;
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
  // Calls of which rounds have ended. Those of which all have are to be
  // answered without the mutex, the others later.
  using Answered = std::vector<CallPtr>;

  void Answer(const Answered& answered) ABSL_LOCKS_EXCLUDED(mutex_);
  void Set(const Announced& announced, State state, Answered& answered,
           uint64_t attempt = 0, const absl::Status& status = absl::OkStatus())
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Add(NameSpace& name_space, Announced announced, Answered& answered)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether all members have announced the key, and none sums it.
  static bool IsReady(const Key& key);
  // Looks whether all members have announced the key.
  void Look(NameSpace& name_space, const std::string& name, Key& key,
            Answered& answered) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailAnnounced(Key& key, const absl::Status& status, Answered& answered)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Learns which sum counts of a key from who has heard it, maybe of another
  // leader, if somebody has announced its round.
  void Learn(Key& key, const mirror::v1::Counted& counted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Announces again the rounds that were under way, unless `status` is an
  // error: then ends them with it.
  void PutBack(Key& key, std::vector<Announced>& announced,
               const absl::Status& status, Answered& answered)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Keeps nothing of a key of which there is nothing to know. Returns the next.
  static Keys::iterator EraseIfIdle(Keys& keys, Keys::iterator key);
  void FailAllAnnounced(NameSpace& name_space, const absl::Status& status,
                        Answered& answered)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // OK if the members are to sum the same round.
  absl::Status CheckAgree(const std::string& key,
                          const std::vector<Announced>& announced) const;
  // Adds rounds that all members have announced, as many as an attempt takes.
  void TakeReady(NameSpace& name_space, Attempt& attempt) const;
  // Returns the next attempt, if there is one to make now.
  AttemptPtr TakeNext(const std::string& name_space)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null: there is none to start.
  void Start(const AttemptPtr& attempt);
  void AskToBegin(const AttemptPtr& attempt);
  // Returns the ids of the members' links; empty: their devices cannot meet.
  std::vector<uint64_t> LinksOf(const Attempt& attempt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether two servers are on one GPU, and tells which.
  bool ShareAGpu(const std::vector<Announced>& servers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reasons of one kind are told now and then.
  void TellWhyNotOnDevices(const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Chooses how the ranges go. Returns whether the attempt may begin.
  bool Enqueue(const AttemptPtr& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The attempt is over. What is to be started now: null for none.
  std::vector<AttemptPtr> TakeNextAfter(const Attempt& attempt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns that of the devices which met before, or a new one. Errors: those
  // of DeviceLink.
  absl::StatusOr<std::string> CommunicatorOf(const Attempt& attempt);
  void OnBegun(const AttemptPtr& attempt, const MirrorReplies& begun);
  void End(const AttemptPtr& attempt, absl::Status status);
  // Ends the round of one of its keys.
  void EndRound(const Attempt& attempt, const std::string& name,
                const std::vector<Announced>& announced,
                const absl::Status& status, Answered& answered)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Devices have failed it. No sum of it counts, so its rounds are attempted
  // again, and ranges go by calls now; those of attempts that wait in the
  // queue go so, too.
  void RepeatByCalls(const AttemptPtr& attempt, const absl::Status& why);
  // Some rounds, by their places, do not wait at a member any more: fails them,
  // and attempts the others anew.
  void OnServersGone(const AttemptPtr& attempt,
                     const std::map<int, absl::Status>& gone);

  void WatchPatience(const CallPtr& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnPatience(const CallPtr& call);
  // Ends the wait of a call, by what those it waits for have answered to a Ping
  // about some keys.
  void EndWait(const CallPtr& call, const mirror::v1::Ping& ping,
               const MirrorReplies& replies);
  // Some rounds of a call have ended: answers it, so that the member goes on
  // with these and asks again for the rest.
  void AnswerPartially(const CallPtr& call);
  void WatchPartial(const CallPtr& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnPartialDelay(const CallPtr& call);
  // Returns whether a sum of the call's rounds is being made, or is about to
  // be.
  static bool IsBeingSummed(const NameSpace& name_space, const CallPtr& call);
  // The call's rounds that wait for members do so no more: they are FAILED if
  // such a member did not answer, else WAITING.
  void EndWaiting(NameSpace& name_space, const CallPtr& call,
                  const MirrorReplies& pings, Answered& answered)
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
  // Until when reasons of a kind are not told.
  std::map<absl::StatusCode, absl::Duration> told_until_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_MIRROR_LEADER_H_
