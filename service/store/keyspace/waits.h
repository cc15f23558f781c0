// Calls that wait: for a key, a version, a round, other workers.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_WAITS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_WAITS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "contract/call_fields.h"
#include "service/store/byte_budget.h"
#include "service/store/namespace_summary.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

class StoredKey;

// One call from its start to its answer, if it may have to wait: the one
// mechanism for every wait. Guarded by the mutex of its namespace, but for
// Send.
//
// A call is parked at a topic. Whoever changes what the topic stands for looks
// again at the calls that are parked there; the alarm of the deadline and the
// cancellation end the call too. So a waiting call costs its memory, and no
// thread.
class WaitingCall : public std::enable_shared_from_this<WaitingCall> {
 public:
  WaitingCall(CallContext context, absl::Duration started)
      : context(std::move(context)), started(started) {}
  virtual ~WaitingCall() = default;

  // Looks whether the call can end. If so, its answer is ready to be sent;
  // if not, `topic` and `reason` say what it waits for.
  virtual bool CanEnd() = 0;
  // Returns what was missing when it was last looked at: DeadlineExceeded
  // (WAIT_ENDED).
  virtual absl::Status Missing() const = 0;
  // Makes `status` the answer.
  virtual void Fail(const absl::Status& status) = 0;
  // Returns how many bytes that nothing else counts the call keeps while it
  // waits.
  virtual uint64_t size_bytes() const { return kOverheadBytes; }
  // Does what else happens when the call ends, with the mutex held.
  virtual void Finish() {}
  // Gives the caller the answer. Called once, without the mutex.
  virtual void Send() = 0;
  // Returns whether Send locks the mutex several times, or takes as long as
  // that.
  virtual bool is_slow_to_send() const { return false; }

  // This object, its alarm, its place in the tables and what gRPC keeps of it.
  static constexpr uint64_t kOverheadBytes = 2048;

  CallContext context;
  const absl::Duration started;
  // Counts size_bytes from the first wait on.
  Reservation reservation;
  std::string topic;
  WaitReason reason = WaitReason::kKey;
  // kStaleness: the step that slower workers must reach first.
  Step awaited_step = 0;
  bool is_finished = false;
  // 0 until the call waits for the first time.
  Alarms::Id alarm = 0;
  // Among those parked at `topic`; for Waits only.
  size_t position = 0;

 protected:
  // Calls `done` and lets go of what it holds: a call that has ended lives on
  // for as long as its cancellation, which `done` may keep alive in turn.
  template <typename Reply>
  static void SendOnce(ReplyCallback<Reply> done, absl::StatusOr<Reply> reply) {
    std::move(done)(std::move(reply));
  }
};

using WaitingCallPtr = std::shared_ptr<WaitingCall>;

// Topics that are no keys: keys have no control characters.
inline constexpr absl::string_view kProgressTopic = "\2";
inline constexpr absl::string_view kRulesTopic = "\3";
inline std::string SnapshotTopic(absl::string_view series) {
  return absl::StrCat("\4", series);
}
inline std::string BarrierTopic(absl::string_view name) {
  return absl::StrCat("\1", name);
}

// The keys whose removal waiting calls must hear of. A call has a Watch of its
// own for each key, so that all takes constant time per watch. Not thread-safe.
class KeyWatches {
 public:
  struct Watch {
    // Null once it is removed.
    const StoredKey* key = nullptr;
    WaitingCall* call = nullptr;
    Watch* previous = nullptr;
    Watch* next = nullptr;
  };

  // The watch stays where it is until it is removed.
  void Add(Watch* watch);
  void Remove(Watch* watch);
  // Moves all watches of one key to the key that takes its place.
  void Move(const StoredKey* from, const StoredKey* to);
  // Returns a watch of the key; null if there is none.
  Watch* Find(const StoredKey* key) const;

 private:
  absl::flat_hash_map<const StoredKey*, Watch*> first_;
};

// The calls of a namespace that wait, by topic, and what waiting has cost. Not
// thread-safe.
class Waits {
 public:
  using Calls = std::vector<WaitingCallPtr>;

  // Parks the call at call->topic.
  void Park(WaitingCallPtr call);

  // Removes and returns the calls parked at `topic`.
  Calls Take(absl::string_view topic);
  // Removes and returns all calls.
  Calls TakeAll();
  // Removes one call, if it is parked.
  void Remove(const WaitingCallPtr& call);

  // Returns the calls parked at `topic`.
  const Calls& At(absl::string_view topic) const;
  void ForEach(absl::FunctionRef<void(const WaitingCallPtr&)> visit) const;

  // Counts a call that has waited, as a wait for what it waited for last.
  void CountEnd(const WaitingCall& call, absl::Duration now);

  size_t num_parked() const { return num_parked_; }
  // Returns one for each reason; calls_waiting says how many wait now.
  const std::array<WaitStatus, kNumWaitReasons>& statuses() const {
    return statuses_;
  }

 private:
  // Returns the count of calls that wait for the call's reason.
  uint64_t& NumWaiting(const WaitingCall& call) {
    return statuses_[static_cast<size_t>(call.reason)].calls_waiting;
  }
  static std::array<WaitStatus, kNumWaitReasons> NoWaits();
  // Counts calls as parked no longer.
  void CountTaken(const Calls& calls);

  absl::flat_hash_map<std::string, Calls> by_topic_;
  size_t num_parked_ = 0;
  std::array<WaitStatus, kNumWaitReasons> statuses_ = NoWaits();
};

// Returns `status` with its code and reason, but with the message `text`.
absl::Status WithMessage(const absl::Status& status, absl::string_view text);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_WAITS_H_
