// Says when the servers make the sums of a namespace's rounds, and which sums
// count.

#ifndef TENSORKV_SERVICE_MIRROR_MIRROR_LEADER_H_
#define TENSORKV_SERVICE_MIRROR_MIRROR_LEADER_H_

#include <algorithm>
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
#include "base/alarms.h"
#include "base/mutex.h"
#include "service/mirror/mirror_group.h"

namespace tensorkv {

// The side of Announce that is called. A round's sum is attempted when all
// members have announced it, with one step and version; rounds that are ready
// at the same time are attempted together, and attempts of a namespace follow
// one another. Sums count once all members have them, and as long as this
// lives it remembers which: who has them and has not heard so announces the
// round again. Thread-safe.
class MirrorLeader : public std::enable_shared_from_this<MirrorLeader> {
 public:
  // `alarms` outlive all calls.
  MirrorLeader(MirrorGroupPtr group, MirrorTimes times, Alarms* alarms);

  void Announce(const MirrorRequest& request, MirrorCallback done);

  // The key has gone from this server, and will from the others: nothing is
  // kept of it.
  void Remove(const std::string& name_space, const std::string& key);

  // The namespace has gone: what was announced fails, what is under way does
  // not count, and which sums have counted says nothing any more.
  void Forget(const std::string& name_space);

  // All calls that wait end with `status`, and so do later ones.
  void Stop(const absl::Status& status);

 private:
  using State = mirror::v1::Outcome::State;

  // An Announce that has not been answered.
  struct Call {
    uint32_t from = 0;
    std::string name_space;
    MirrorResponse response;
    size_t num_open = 0;
    MirrorCallback done;
    Alarms::Id alarm = 0;
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
    // Since then nobody has announced it.
    bool is_removed = false;
    Summed last;  // of attempt 0: none
  };
  struct Attempt {
    uint64_t id = 0;
    std::string name_space;
    // By key, those of each member.
    std::map<std::string, std::vector<Announced>> rounds;
    // Its namespace has gone meanwhile. Under the mutex.
    bool is_forgotten = false;
  };
  using AttemptPtr = std::shared_ptr<Attempt>;
  struct NameSpace {
    std::map<std::string, Key> keys;
    std::deque<std::string> ready;
    AttemptPtr attempt;
  };
  // Calls to be answered without the mutex.
  using Answered = std::vector<CallPtr>;

  void Answer(Answered& answered);
  static void Set(const Announced& announced, State state, Answered& answered,
                  uint64_t attempt = 0,
                  const absl::Status& status = absl::OkStatus());

  void Add(NameSpace& name_space, Announced announced, Answered& answered)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether all members have announced the key, and none sums it.
  static bool IsReady(const Key& key) {
    return !key.is_under_way &&
           std::all_of(
               key.announced.begin(), key.announced.end(),
               [](const Announced& each) { return each.call != nullptr; });
  }
  // Looks whether all members have announced the key.
  void Look(NameSpace& name_space, const std::string& name, Key& key,
            Answered& answered) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void FailAnnounced(Key& key, const absl::Status& status,
                            Answered& answered);
  static void FailAllAnnounced(NameSpace& name_space,
                               const absl::Status& status, Answered& answered);
  // OK if the members are to sum the same round.
  absl::Status CheckAgree(const std::string& key,
                          const std::vector<Announced>& announced) const;
  // The next attempt, if there is one to make now.
  AttemptPtr TakeNext(const std::string& name_space)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Start(const AttemptPtr& attempt);
  void End(const AttemptPtr& attempt, absl::Status status);

  void OnPatience(const CallPtr& call);
  // Whom a call waits for, by whether they have answered a Ping.
  void EndWait(const CallPtr& call, const std::vector<absl::Status>& pings);

  using Statuses = std::function<void(std::vector<absl::Status>)>;
  enum class WaitFor { kAll, kAllOrError };
  // Calls all members; those that are not `asked` count as OK, and so do those
  // that are not waited for.
  void AskAll(const MirrorRequest& request, absl::Duration timeout,
              const std::vector<bool>& asked, WaitFor wait_for, Statuses done);

  const MirrorGroupPtr group_ptr_;
  const MirrorGroup& group_ = *group_ptr_;
  const MirrorTimes times_;
  Alarms& alarms_;
  Mutex mutex_;
  absl::Status stopped_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_attempt_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, NameSpace> namespaces_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_MIRROR_LEADER_H_
