// The sums that rules need of whole keys, before their elements are updated.

#ifndef TENSORKV_KERNELS_CPU_KEY_SUMS_H_
#define TENSORKV_KERNELS_CPU_KEY_SUMS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/thread_pool.h"

namespace tensorkv {

// Makes the sums of the updates of a batch (kernels/ops/key_sums.h) and holds
// them. A batch whose rules need no sums costs one look at each update. Const
// access is thread-safe.
class KeySums {
 public:
  // Makes all sums, in parallel, and returns when they are made. Writes tensors
  // of the batch: updates the states per row and per column, and all of those
  // updates that need no other sums and are best done at once (HasUpdated).
  // REQUIRES: the batch has been checked; it outlives this.
  KeySums(const KernelTable& kernels, ThreadPool& threads,
          absl::Span<const TensorUpdate> batch);

  // Returns the sums of all phases of an update, one phase after another, as
  // UpdateRange takes them; null if no update of the batch has any.
  const double* Of(size_t update) const {
    return first_sum_.empty() ? nullptr : &sums_[first_sum_[update]];
  }

  // Returns whether the constructor has done the whole update.
  bool HasUpdated(size_t update) const;

  // Returns which of `count` parts of the batch the next pass should do as its
  // part number `position`. Passes go forth and back, so that each begins with
  // the parts that the one before has left in the caches.
  size_t IndexAt(size_t position, size_t count) const {
    return is_backward_ ? count - 1 - position : position;
  }

 private:
  // One part of one update: elements, rows, or columns.
  struct Part {
    size_t update;
    int64_t begin;
    int64_t end;
  };

  // How many elements, rows or columns of an update are divided into parts, and
  // how many one part has.
  struct Division {
    int64_t end = 0;
    int64_t size = 1;
  };

  void AllocateSums(size_t num_sums);
  // Returns the parts of all updates, as `division_of` divides them.
  template <typename DivisionOf>
  std::vector<Part> PartsOf(DivisionOf division_of) const;
  // Updates the states per row of rules without states per column, and all of
  // the updates that HasUpdated tells.
  void RunRows(const KernelTable& kernels, ThreadPool& threads);
  // Updates the states per row and per column of rules that have both.
  void RunColumns(const KernelTable& kernels, ThreadPool& threads);
  // Makes the sums of a phase.
  void RunPhase(const KernelTable& kernels, ThreadPool& threads, int phase);
  // Adds up the parts' sums of a phase to those of their updates.
  void Combine(const std::vector<Part>& parts,
               const std::vector<double>& partial, int phase);

  const absl::Span<const TensorUpdate> batch_;
  bool has_rows_ = false;
  bool is_backward_ = false;
  // The index in sums_ of each update's first; empty if no update has any.
  std::vector<size_t> first_sum_;
  std::vector<double> sums_;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CPU_KEY_SUMS_H_
