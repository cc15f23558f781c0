#include "kernels/cpu/key_sums.h"

#include <algorithm>

#include "kernels/cpu/range_update.h"
#include "kernels/op_types.h"

namespace tensorkv {
namespace {

ops::SumsOfOp SumsOf(const TensorUpdate& update) {
  return SumsOfRule(update.rule->kind());
}

// Rows that are about as many elements as a part.
int64_t RowsOfPart(const TensorUpdate& update) {
  const auto elements = static_cast<int64_t>(ops::kSumPartElements);
  return std::max<int64_t>(
      1, elements * update.num_rows / update.value.num_elements);
}

}  // namespace

KeySums::KeySums(const KernelTable& kernels, ThreadPool& threads,
                 absl::Span<const TensorUpdate> batch)
    : batch_(batch) {
  Reserve(batch);
  for (int phase = 0; phase < num_phases_; ++phase) {
    RunPhase(kernels, threads, phase);
  }
}

// The rows of a rule are its first phase.
void KeySums::Reserve(absl::Span<const TensorUpdate> batch) {
  size_t num_sums = 0;
  for (const TensorUpdate& update : batch) {
    const ops::SumsOfOp sums = SumsOf(update);
    num_phases_ = std::max(num_phases_, sums.num_phases + sums.has_row_state);
    num_sums += sums.size();
  }
  if (num_sums == 0) return;
  sums_.resize(num_sums + 1);  // so that even none has an address
  first_sum_.reserve(batch.size());
  size_t next = 0;
  for (const TensorUpdate& update : batch) {
    first_sum_.push_back(next);
    next += SumsOf(update).size();
  }
}

std::vector<KeySums::Part> KeySums::PartsOfPhase(int phase) const {
  std::vector<Part> parts;
  for (size_t i = 0; i < batch_.size(); ++i) {
    const TensorUpdate& update = batch_[i];
    const ops::SumsOfOp sums = SumsOf(update);
    const bool is_of_rows = sums.has_row_state && phase == 0;
    if (phase >= sums.num_phases && !is_of_rows) continue;
    const int64_t end =
        is_of_rows ? update.num_rows : update.value.num_elements;
    if (update.value.num_elements == 0) continue;
    const int64_t size = is_of_rows
                             ? RowsOfPart(update)
                             : static_cast<int64_t>(ops::kSumPartElements);
    for (int64_t at = 0; at < end; at += size) {
      parts.push_back({i, at, std::min(at + size, end)});
    }
  }
  return parts;
}

void KeySums::RunPhase(const KernelTable& kernels, ThreadPool& threads,
                       int phase) {
  const std::vector<Part> parts = PartsOfPhase(phase);
  std::vector<double> partial(parts.size() * ops::kMaxSums);
  threads.ParallelFor(parts.size(), [&](size_t i) {
    const Part& part = parts[i];
    const TensorUpdate& update = batch_[part.update];
    if (SumsOf(update).has_row_state) {
      return UpdateRows(kernels, update, part.begin, part.end);
    }
    SumRange(kernels, update, phase, Of(part.update), part.begin, part.end,
             &partial[i * ops::kMaxSums]);
  });
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
