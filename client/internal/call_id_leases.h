// Gives a client's calls ids of which servers need to remember little.

#ifndef TENSORKV_CLIENT_INTERNAL_CALL_ID_LEASES_H_
#define TENSORKV_CLIENT_INTERNAL_CALL_ID_LEASES_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "contract/requests.h"

namespace tensorkv {

// Gives each call an id of its own, for all its attempts. Thread-safe; outlives
// its leases.
//
// Calls at the same time lease ids of different client ids. Under a client id
// one call follows the other, so that a server has
// no need of any answer but the latest of each, however slow one of the calls
// is and however many others overtake it. A process that was forked begins with
// client ids of its own.
class CallIdLeases {
 private:
  struct IdSequence {
    std::string client_id;
    uint64_t last_sequence = 0;
  };

 public:
  // A Lease is the id of a call. It is destroyed once no attempt at the call is
  // made any more: another call then gets the same client id.
  class Lease {
   public:
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { leases_.Return(std::move(sequence_)); }

    CallId id() const {
      return {sequence_->client_id, sequence_->last_sequence};
    }

   private:
    friend class CallIdLeases;
    Lease(CallIdLeases& leases, std::unique_ptr<IdSequence> sequence)
        : leases_(leases), sequence_(std::move(sequence)) {}

    CallIdLeases& leases_;
    std::unique_ptr<IdSequence> sequence_;
  };

  // Returns an id that no call has had: the next one of a client id that no
  // other call uses at present.
  Lease Acquire();

 private:
  // Begins with new client ids in a process that was forked since the last
  // call.
  void RenewAfterFork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Return(std::unique_ptr<IdSequence> sequence);

  Mutex mutex_;
  // The process whose calls these are, and its random bytes.
  pid_t process_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string prefix_ ABSL_GUARDED_BY(mutex_);
  uint32_t num_sequences_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<IdSequence>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_CALL_ID_LEASES_H_
