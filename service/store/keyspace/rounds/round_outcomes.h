// Holds what the rounds of a key give to those who apply, drop and sum them.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUND_OUTCOMES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUND_OUTCOMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "contract/call_fields.h"
#include "service/store/byte_budget.h"
#include "service/store/keyspace/rounds/contribution.h"

namespace tensorkv {

// Returns how errors name a round: `round 7 of "fc1.w"`.
std::string RoundName(Step step, absl::string_view key);

// What is taken out of a round that has closed, to be applied, or that has
// failed, to be dropped.
struct ClosedRound {
  Step step = 0;
  // The contributors', in the order in which they are added; empty if all
  // skipped.
  Slots slots;
  // Says what TensorUpdate says.
  uint32_t num_averaged = 0;
  // Set where the rule gets the mean of the slots: what they weigh together.
  std::optional<double> total_weight;
  Reservation tensor_reservation;
  Reservation overhead;
  Reservation value_reservation;
};

using ClosedRounds = absl::InlinedVector<ClosedRound, 1>;

struct FailedRounds {
  // The rounds that were open.
  ClosedRounds open;
  // Late contributions, which are no round.
  ClosedRounds late;
  // Counts the rounds that had closed, but were not applied.
  size_t num_closed = 0;
};

// The first contributions of a round, or what one worker brings, to be summed
// ahead of its end.
struct PartialSum {
  Step step = 0;
  // Tells the round from others of its step.
  uint64_t id = 0;
  Slots slots;
  // Multiplies the sum.
  double scale = 1;
  // Several servers make the sum; then the rank of each slot, and the memory to
  // decode those that are encoded.
  bool is_exchange = false;
  std::vector<uint32_t> ranks;
  Reservation decoded;
  // One worker's tensors, which count as one contribution: its place.
  std::optional<uint32_t> place;
  // They come late, from the worker of the rank that is the place.
  bool is_late = false;
  // The first slot is a sum, to which the others are added where it is.
  bool adds_to_first = false;
  // Pays for the sum of one worker's tensors, or for the one that is there.
  Reservation sum_reservation;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUND_OUTCOMES_H_
