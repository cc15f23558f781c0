// Holds what workers contribute to one key.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_CONTRIBUTION_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_CONTRIBUTION_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "contract/data_requests.h"
#include "contract/encoding.h"
#include "service/store/byte_budget.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace tensorkv {

// The payload of one pushed tensor, or of some rows of one. The key knows how
// many elements there are, or how many to a row.
struct Slot {
  Slot() = default;
  explicit Slot(PushEntry&& entry)
      : dtype(entry.dtype()),
        update_all_rows(entry.update_all_rows),
        data(entry.tensor.data()),
        buffer(entry.tensor.TakeBuffer()),
        encoding(std::move(entry.encoding)),
        rows(std::move(entry.rows)),
        weight(entry.weight) {}

  // Returns what a mean multiplies the elements by as it adds them.
  double factor() const { return is_weighted ? 1 : weight; }
  // Returns whether it names no rows, and so brings nothing but its weight.
  bool is_empty_list() const {
    return rows && rows->size() == 0 && !update_all_rows;
  }
  // Returns how an update reads `data`; null for unpacked elements.
  const Packing* packing() const {
    return encoding ? &encoding->packing() : nullptr;
  }

  DType dtype = DType::kF32;
  // Means what the field of PushEntry means, as does `rows`.
  bool update_all_rows = false;
  // True for a sum of contributions, each multiplied by its weight.
  bool is_weighted = false;
  const char* data = nullptr;
  // Keeps `data`.
  RefPtr<Buffer> buffer;
  RefPtr<const Encoding> encoding;
  RefPtr<const RowIds> rows;
  // What it weighs, or the contributions weigh that are in it.
  double weight = 1;
};
// Large pushes have one for each entry.
static_assert(sizeof(Slot) <= 48);

using Slots = absl::InlinedVector<Slot, 1>;

// Returns what the contributions weigh together, added in their order.
inline double TotalWeight(absl::Span<const Slot> slots) {
  double total = 0;
  for (const Slot& slot : slots) total += slot.weight;
  return total;
}

// Contribution is what one worker gives to one update or round: nothing (it
// skips), or tensors that are summed in their order.
struct Contribution {
  Slots slots;
  // Reserve the bytes of the tensors, and of what keeping them costs.
  Reservation tensor_reservation;
  Reservation overhead;
  // Where servers exchange tensors: reserves the bytes that those which came
  // encoded are decoded to when the round closes.
  Reservation decoded;
  // Say whether the tensors must be summed before they are added to those of
  // other workers, and reserve that sum.
  bool needs_sum = false;
  Reservation sum_reservation;
  // Says whether it is a partial sum: nobody else has its memory.
  bool is_partial_sum = false;
};

// Bounds the bytes that one contribution costs besides its tensors.
inline constexpr uint64_t kContributionOverheadBytes = 512;
// Bytes that it takes to remember who made a contribution.
inline constexpr uint64_t kContributorBytes = 64;

// Contributor says who contributes. Two contributors are the same worker if
// they have the same rank and the same, known identity.
struct Contributor {
  // Nobody knows who it is: neither a member nor a client with an id.
  static constexpr uint64_t kUnknown = 0;
  // The member of that rank, whatever its epoch.
  static constexpr uint64_t kMember = 1;

  uint32_t rank = 0;
  // One of these, or the hash of a client's id.
  uint64_t identity = kUnknown;

  bool IsSame(const Contributor& other) const {
    return rank == other.rank && identity == other.identity &&
           identity != kUnknown;
  }
  // Compares the fields: unknown contributors of one rank are equal here.
  friend bool operator==(const Contributor&, const Contributor&) = default;
};

// Contributors lists who contributed to a closed round. Immutable and shared by
// the rounds that had the same contributors, as most rounds of a namespace
// have, and by snapshots of it, which may be there when it is gone.
struct Contributors : RefCounted {
  explicit Contributors(std::vector<Contributor> contributors,
                        Reservation its_overhead = {})
      : by_rank(std::move(contributors)), overhead(std::move(its_overhead)) {}

  // Returns null if that rank has not contributed.
  const Contributor* Find(uint32_t rank) const {
    const auto it =
        std::lower_bound(by_rank.begin(), by_rank.end(), rank,
                         [](const Contributor& each, uint32_t rank) {
                           return each.rank < rank;
                         });
    return it != by_rank.end() && it->rank == rank ? &*it : nullptr;
  }

  const std::vector<Contributor> by_rank;
  const LastingReservation overhead;
};

// Who contributed to a round that had closed, and the step of the round that
// has taken that.
struct LateContributor {
  Contributor by;
  Step taken_by = 0;
};

// A round that was applied, and the version that it made.
struct AppliedRound {
  Step step = 0;
  Version version = 0;
  RefPtr<const Contributors> contributors;
  std::vector<LateContributor> late = {};
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_CONTRIBUTION_H_
