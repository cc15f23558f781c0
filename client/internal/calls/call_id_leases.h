// Gives a client's calls the ids by which servers know a repeat.

#ifndef TENSORKV_CLIENT_INTERNAL_CALLS_CALL_ID_LEASES_H_
#define TENSORKV_CLIENT_INTERNAL_CALLS_CALL_ID_LEASES_H_

#include <sys/types.h>

#include <bitset>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "contract/call_fields.h"

namespace tensorkv {

// Gives each call an id of its own, for all its attempts, and says with it
// which calls have ended, so that servers keep no answer that nobody asks for.
// Thread-safe; never waits; outlives its leases.
//
// All calls have one client id, by which servers also know the contributions of
// a worker that does not join. While a call is overtaken by kMaxCallsUnderWay
// others, those that follow have another client id: they cannot wait for the
// slow call, which may wait for what they bring. A process that was forked
// begins with client ids of its own.
class CallIdLeases {
 private:
  struct Sequences;

 public:
  // A Lease is the id of a call. It is destroyed once no attempt at the call is
  // made any more, and its caller has been told of the outcome, or is told
  // next.
  class Lease {
   public:
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { leases_.Return(*sequences_, sequence_); }

    CallId id() const;

   private:
    friend class CallIdLeases;
    Lease(CallIdLeases& leases, std::shared_ptr<Sequences> sequences,
          uint64_t sequence, uint64_t answered_below)
        : leases_(leases),
          sequences_(std::move(sequences)),
          sequence_(sequence),
          answered_below_(answered_below) {}

    CallIdLeases& leases_;
    const std::shared_ptr<Sequences> sequences_;
    const uint64_t sequence_;
    const uint64_t answered_below_;
  };

  // Returns an id that no call has had.
  Lease Acquire();

 private:
  // The sequences of one client id.
  struct Sequences {
    explicit Sequences(std::string id) : client_id(std::move(id)) {}

    bool is_full() const { return next - lowest >= kMaxCallsUnderWay; }

    const std::string client_id;
    // The mutex of the leases guards what follows.
    uint64_t next = 1;
    // The lowest of a call that has not ended; `next` if all have.
    uint64_t lowest = 1;
    // By sequence modulo kMaxCallsUnderWay.
    std::bitset<kMaxCallsUnderWay> is_under_way;
  };

  // Begins with new client ids in a process that was forked since the last
  // call.
  void RenewAfterFork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the first sequences that are not full.
  std::shared_ptr<Sequences> FindOrAdd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Return(Sequences& sequences, uint64_t sequence);

  Mutex mutex_;
  // The process whose calls these are, and its random bytes.
  pid_t process_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string prefix_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Sequences>> all_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_CALLS_CALL_ID_LEASES_H_
