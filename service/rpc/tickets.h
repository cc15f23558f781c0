// The values that callers have tickets for.

#ifndef TENSORKV_SERVICE_RPC_TICKETS_H_
#define TENSORKV_SERVICE_RPC_TICKETS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/mutex.h"
#include "contract/requests.h"
#include "service/rpc/striped_call.h"

namespace tensorkv {

// Returns the error of a call that has had its effect, but gets no ticket for
// its values for what `refusal` says: Unavailable (NO_TICKET, with the time to
// repeat it).
absl::Status WithoutTicket(const absl::Status& refusal);

// Holds values until a PullStream has brought them, as Ticket in data.proto
// says. What holds the values is their tensors, so that they count in budgets,
// and keep updates from writing in place, as those of a reply that is being
// sent do. Thread-safe; each TakenStripe is used by one thread at a time, but
// for End.
class Tickets {
 public:
  // The time that the first stripe of a ticket has to come.
  static constexpr absl::Duration kTimeToTake = absl::Seconds(10);
  // Bound the tickets that have not ended.
  static constexpr size_t kMostOfCaller = 512;
  static constexpr size_t kMostInAll = 1024;

  class TakenStripe;

  // The other stripes of a ticket must come within `stream_timeout` after the
  // first. `alarms` outlives this object.
  Tickets(absl::Duration stream_timeout, Alarms* alarms);

  // Holds the values of `reply` for the caller of that name, and returns them
  // with a ticket. Errors: ResourceExhausted (LIMIT_REACHED, with the time to
  // try again).
  absl::StatusOr<StripedCall::Reply> Add(const std::string& caller,
                                         PullReply reply);

  // Returns the caller's ticket of that id to one of its stripes. Errors:
  // Unavailable (NO_TICKET) · InvalidArgument (another number of stripes than
  // the first has said) · AlreadyExists (STRIPE_EXISTS).
  absl::StatusOr<TakenStripe> Take(const std::string& caller,
                                   absl::string_view id, const Stripe& stripe);

  // Lets go of a ticket, if it is there.
  void End(absl::string_view id) { state_->End(std::string(id)); }

  // Returns how many tickets have not ended.
  size_t num_open() const;
  // Returns how many have ended because stripes did not come in time.
  uint64_t num_expired() const { return state_->num_expired; }

 private:
  struct HeldValues {
    std::string caller;
    StripedCall::Reply reply;
    Alarms::Id alarm = 0;
    // By index; empty until the first stripe has come.
    std::vector<bool> taken;
    uint32_t num_taken = 0;
    uint32_t num_sent = 0;
  };

  // Alarms and stripes may be there longer than the tickets.
  struct State {
    explicit State(Alarms* alarms) : alarms(*alarms) {}

    void End(const std::string& id);
    // Ends a ticket whose alarm has come.
    void Expire(const std::string& id);
    // Counts a stripe as sent; after the last of them the ticket ends.
    void CountSent(const std::string& id);
    // Takes the values out of `held`, for the caller to let go of them without
    // the lock.
    StripedCall::Reply Remove(const std::string& id)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

    Alarms& alarms;
    std::atomic<uint64_t> num_expired = 0;
    mutable Mutex mutex;
    // By id.
    absl::flat_hash_map<std::string, HeldValues> held ABSL_GUARDED_BY(mutex);
    // Counts those of each caller who has any.
    absl::flat_hash_map<std::string, size_t> of_caller ABSL_GUARDED_BY(mutex);
  };

  // Has the ticket end after that time, and not when it was to end before.
  void SetAlarm(const std::string& id, absl::Duration time_left)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);
  // Marks the stripe as taken. Errors: those of Take.
  static absl::Status Mark(const Stripe& stripe, HeldValues& held);

  const absl::Duration stream_timeout_;
  const std::shared_ptr<State> state_;
};

// A stripe that is being sent. Unless it is sent to its end, its ticket ends
// with it.
class Tickets::TakenStripe {
 public:
  TakenStripe(TakenStripe&& other) = default;
  TakenStripe& operator=(TakenStripe&& other) = delete;
  ~TakenStripe() { End(); }

  const StripedCall::Reply& reply() const { return reply_; }

  // Is to be called when all of the stripe has been given to the transport.
  void SetSent();
  // Ends the ticket: nobody takes its other stripes. Thread-safe.
  void End();

 private:
  friend class Tickets;
  TakenStripe(std::shared_ptr<State> state, std::string id,
              StripedCall::Reply reply)
      : state_(std::move(state)),
        id_(std::move(id)),
        reply_(std::move(reply)) {}

  // Null once it has been moved from.
  std::shared_ptr<State> state_;
  std::string id_;
  StripedCall::Reply reply_;
  bool is_sent_ = false;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_TICKETS_H_
