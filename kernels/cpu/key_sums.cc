#include "kernels/cpu/key_sums.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/range_update.h"
#include "kernels/op_types.h"

namespace tensorkv {
namespace {

ops::SumsOfOp SumsOf(const TensorUpdate& update) {
  return SumsOfRule(update.rule->kind());
}

// Rows of that many elements at most stay in a second-level cache from the sum
// of their terms until their elements are updated.
constexpr int64_t kMaxCachedRow = 64 * 1024;

// Returns whether nothing but the sum of its row lies between an element's term
// and its update, which then follows while the row is in the cache.
bool IsUpdatedByRows(const TensorUpdate& update) {
  const ops::SumsOfOp sums = SumsOf(update);
  return sums.has_row_state && !sums.has_column_state && sums.num_phases == 0 &&
         update.value.num_elements > 0 && NumColumns(update) <= kMaxCachedRow;
}

// Returns how many rows are about as many elements as a part.
int64_t RowsOfPart(const TensorUpdate& update) {
  const auto elements = static_cast<int64_t>(ops::kSumPartElements);
  return std::max<int64_t>(
      1, elements * update.num_rows / update.value.num_elements);
}

}  // namespace

KeySums::KeySums(const KernelTable& kernels, ThreadPool& threads,
                 absl::Span<const TensorUpdate> batch)
    : batch_(batch) {
  bool has_rows = false;
  bool has_columns = false;
  int num_phases = 0;
  size_t num_sums = 0;
  const UpdateRule* rule = nullptr;
  ops::SumsOfOp sums;
  for (const TensorUpdate& update : batch) {
    // Batches have long runs of one rule.
    if (update.rule != rule) sums = SumsOf(update);
    rule = update.rule;
    has_rows |= sums.has_row_state;
    has_columns |= sums.has_column_state;
    num_phases = std::max(num_phases, sums.num_phases);
    num_sums += sums.size();
  }
  has_rows_ = has_rows;
  if (has_rows) RunRows(kernels, threads);
  if (has_columns) RunColumns(kernels, threads);
  if (num_phases > 0) AllocateSums(num_sums);
  for (int phase = 0; phase < num_phases; ++phase) {
    RunPhase(kernels, threads, phase);
  }
}

void KeySums::AllocateSums(size_t num_sums) {
  sums_.resize(num_sums + 1);  // so that even none has an address
  first_sum_.reserve(batch_.size());
  size_t next = 0;
  for (const TensorUpdate& update : batch_) {
    first_sum_.push_back(next);
    next += SumsOf(update).size();
  }
}

template <typename DivisionOf>
std::vector<KeySums::Part> KeySums::PartsOf(DivisionOf division_of) const {
  std::vector<Part> parts;
  for (size_t i = 0; i < batch_.size(); ++i) {
    if (batch_[i].value.num_elements == 0) continue;
    const Division division = division_of(batch_[i], SumsOf(batch_[i]));
    for (int64_t at = 0; at < division.end; at += division.size) {
      parts.push_back({i, at, std::min(at + division.size, division.end)});
    }
  }
  return parts;
}

void KeySums::RunRows(const KernelTable& kernels, ThreadPool& threads) {
  const std::vector<Part> rows = PartsOf([](const auto& update, auto sums) {
    return sums.has_row_state && !sums.has_column_state
               ? Division{update.num_rows, RowsOfPart(update)}
               : Division();
  });
  threads.ParallelFor(rows.size(), [&](size_t i) {
    const TensorUpdate& update = batch_[rows[i].update];
    const auto [begin, end] = std::pair(rows[i].begin, rows[i].end);
    UpdateRows(kernels, update, begin, end);
    if (!IsUpdatedByRows(update)) return;
    const int64_t size = NumColumns(update);
    UpdateRange(kernels, update, begin * size, end * size);
  });
}

void KeySums::RunColumns(const KernelTable& kernels, ThreadPool& threads) {
  std::vector<const TensorUpdate*> updates;
  for (const TensorUpdate& update : batch_) {
    if (update.value.num_elements == 0) continue;
    if (SumsOf(update).has_column_state) updates.push_back(&update);
  }
  UpdateRowsAndColumns(kernels, threads, updates);
}

bool KeySums::HasUpdated(size_t update) const {
  return has_rows_ && IsUpdatedByRows(batch_[update]);
}

void KeySums::RunPhase(const KernelTable& kernels, ThreadPool& threads,
                       int phase) {
  const std::vector<Part> parts = PartsOf([=](const auto& update, auto sums) {
    return phase < sums.num_phases
               ? Division{update.value.num_elements, ops::kSumPartElements}
               : Division();
  });
  std::vector<double> partial(parts.size() * ops::kMaxSums);
  threads.ParallelFor(parts.size(), [&](size_t position) {
    const size_t i = IndexAt(position, parts.size());
    const auto [update, begin, end] = parts[i];
    SumRange(kernels, batch_[update], phase, Of(update), begin, end,
             &partial[i * ops::kMaxSums]);
  });
  is_backward_ = !is_backward_;
  Combine(parts, partial, phase);
}

void KeySums::Combine(const std::vector<Part>& parts,
                      const std::vector<double>& partial, int phase) {
  for (size_t first = 0; first < parts.size();) {
    size_t end = first;
    while (end < parts.size() && parts[end].update == parts[first].update) {
      ++end;
    }
    const ops::SumsOfOp sums = SumsOf(batch_[parts[first].update]);
    for (int k = 0; k < sums.num_sums; ++k) {
      double lanes[ops::kSumLanes] = {};
      for (size_t i = first; i < end; ++i) {
        lanes[(i - first) % ops::kSumLanes] += partial[i * ops::kMaxSums + k];
      }
      sums_[first_sum_[parts[first].update] + phase * sums.num_sums + k] =
          ops::SumOfLanes(lanes);
    }
    first = end;
  }
}

}  // namespace tensorkv
