// Decides which calls may run at the same time.

#ifndef TENSORKV_CLIENT_INTERNAL_CALLS_KEY_ORDER_H_
#define TENSORKV_CLIENT_INTERNAL_CALLS_KEY_ORDER_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"

namespace tensorkv {

// Keeps calls that have a key in common in their order; all others are free to
// overtake. Each key has a line of calls, and a call may run when it is the
// first in all of its lines. Not thread-safe.
class KeyOrder {
 public:
  // Identifies a call; the caller's choice.
  using Ticket = uint64_t;
  // Identifies a key, such as by its hash. Two keys with the same one cost
  // time, but nothing else.
  using KeyHash = uint64_t;

  // Puts a call at the end of the lines of its keys, of which some may be the
  // same. Returns whether it may run now.
  // REQUIRES: no call has that ticket.
  bool Add(Ticket ticket, std::vector<KeyHash> keys);

  // Removes a call, which has run, from its lines. Returns the calls that may
  // run now and could not before.
  std::vector<Ticket> Remove(Ticket ticket);

 private:
  struct Call {
    std::vector<KeyHash> keys;  // different ones
    size_t num_waiting_in = 0;  // lines in which it is not the first
  };

  absl::flat_hash_map<Ticket, Call> calls_;
  absl::flat_hash_map<KeyHash, absl::InlinedVector<Ticket, 2>> lines_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_CALLS_KEY_ORDER_H_
