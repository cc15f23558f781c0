// Carries ranges by DeliverRanges calls of the servers to each other.

#ifndef TENSORKV_SERVICE_MIRROR_DELIVERED_RANGES_H_
#define TENSORKV_SERVICE_MIRROR_DELIVERED_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/mutex.h"
#include "service/mirror/mirror_group.h"
#include "service/mirror/range_transport.h"

namespace tensorkv {

// Sends up to 1 MiB in a call, and to each server one call at a time.
// Thread-safe.
class DeliveredRanges final
    : public RangeTransport,
      public std::enable_shared_from_this<DeliveredRanges> {
 public:
  // `alarms` outlive all calls.
  DeliveredRanges(MirrorGroupPtr group, Alarms* alarms)
      : group_ptr_(std::move(group)), alarms_(*alarms) {}

  void Expect(uint64_t attempt, int phase, RangesToReceive receives) override;
  void Move(uint64_t attempt, int phase, RangesToSend sends,
            absl::Duration timeout, Callback done) override;
  void EndAttempt(uint64_t attempt) override;

  // Copies what the request brings into the memory that Expect has named.
  // Errors: FailedPrecondition: no such attempt · InvalidArgument: not what is
  // expected.
  absl::Status Receive(const v1::DeliverRangesRequest& message);

 private:
  // Cursor is the next byte of pieces that follow one another.
  struct Cursor {
    size_t piece = 0;
    size_t offset = 0;
  };
  struct Phase {
    RangesToReceive receives;
    std::vector<Cursor> received;
    RangesToSend sends;
    std::vector<Cursor> sent;
    // By member: whether a call is under way.
    std::vector<bool> is_calling;
    absl::Duration timeout;
    Callback done;  // null: nobody waits, yet or any more
    Alarms::Id alarm = 0;
  };
  struct Attempt {
    Mutex mutex;
    bool is_forgotten ABSL_GUARDED_BY(mutex) = false;
    Phase phases[kNumPhases] ABSL_GUARDED_BY(mutex);
  };
  using AttemptPtr = std::shared_ptr<Attempt>;

  AttemptPtr Find(uint64_t attempt);
  static absl::Status ReceivePart(Phase& phase, uint32_t from,
                                  const v1::RangePart& part);
  // Sends what comes next to a member, and goes on when that is there.
  void SendNext(uint64_t id, const AttemptPtr& attempt, int phase, uint32_t to);
  static void FillMessage(const std::vector<absl::Span<const char>>& pieces,
                          Cursor& cursor, v1::DeliverRangesRequest& message);
  void OnTimeout(const AttemptPtr& attempt, int phase);
  // Ends the phase if all has been sent and received.
  void EndIfComplete(const AttemptPtr& attempt, int phase);
  // Calls the phase's `done`, unless it has been called.
  void EndPhase(const AttemptPtr& attempt, int phase, absl::Status status);

  const MirrorGroupPtr group_ptr_;
  const MirrorGroup& group_ = *group_ptr_;
  Alarms& alarms_;
  Mutex mutex_;
  std::map<uint64_t, AttemptPtr> attempts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_DELIVERED_RANGES_H_
