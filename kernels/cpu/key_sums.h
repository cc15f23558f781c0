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

// The sums of the updates of a batch: kernels/ops/key_sums.h says what they
// are. A batch whose rules need none costs one look at each update.
class KeySums {
 public:
  // Makes them all, in parallel, and updates the states that are per row
  // and per column; and all of an update where it needs no more than that.
  // REQUIRES: the batch has been checked; it outlives this.
  KeySums(const KernelTable& kernels, ThreadPool& threads,
          absl::Span<const TensorUpdate> batch);

  // Those of all phases; null where the update has none.
  const double* Of(size_t update) const {
    return first_sum_.empty() ? nullptr : &sums_[first_sum_[update]];
  }

  // Whether an update is made, so that nothing of it is left to do.
  bool HasUpdated(size_t update) const;

  // Which of `count` parts of the batch comes at a turn of the pass that
  // follows. Passes go forth and back, so that each begins with what the one
  // before has left in the caches.
  size_t IndexAt(size_t turn, size_t count) const {
    return is_backward_ ? count - 1 - turn : turn;
  }

 private:
  // One part of one update: elements, rows, or columns.
  struct Part {
    size_t update;
    int64_t begin;
    int64_t end;
  };

  // How much of an update is cut into parts, and how large they are.
  struct Cut {
    int64_t end = 0;
    int64_t size = 1;
  };

  void Reserve(size_t num_sums);
  template <typename CutOf>
  std::vector<Part> PartsOf(CutOf cut_of) const;
  void RunRows(const KernelTable& kernels, ThreadPool& threads);
  void RunColumns(const KernelTable& kernels, ThreadPool& threads);
  void RunPhase(const KernelTable& kernels, ThreadPool& threads, int phase);
  void Combine(const std::vector<Part>& parts,
               const std::vector<double>& partial, int phase);

  const absl::Span<const TensorUpdate> batch_;
  bool has_rows_ = false;
  bool is_backward_ = false;
  // Where in sums_ those of each update begin; empty if there are none at all.
  std::vector<size_t> first_sum_;
  std::vector<double> sums_;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CPU_KEY_SUMS_H_
