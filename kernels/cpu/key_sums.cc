#include "kernels/cpu/key_sums.h"

#include <algorithm>

#include "kernels/cpu/range_update.h"
#include "kernels/op_types.h"

namespace tensorkv {
namespace {

ops::SumsOfOp SumsOf(const TensorUpdate& update) {
  return SumsOfRule(update.rule->kind());
}

int64_t NumColumns(const TensorUpdate& update) {
  return update.value.num_elements / update.num_rows;
}

// Some columns of an update over a part of its rows, and where their sums go.
struct ColumnPart {
  size_t update;
  Rectangle of;
  size_t first_sum;
};

// Cuts the columns [begin, end) into parts, and returns how many there are.
// The sums of all columns of the update are at `first_sum`.
size_t AddParts(const TensorUpdate& update, size_t index, int64_t begin,
                int64_t end, size_t first_sum, std::vector<ColumnPart>& parts) {
  const int64_t columns = NumColumns(update);
  const int64_t rows = ops::RowsOfColumnPart(update.num_rows, columns);
  size_t num_parts = 0;
  for (int64_t row = 0; row < update.num_rows; row += rows, ++num_parts) {
    const int64_t end_row = std::min(row + rows, update.num_rows);
    parts.push_back({index,
                     {row, end_row, begin, end},
                     first_sum + num_parts * columns + begin});
  }
  return num_parts;
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
  bool has_rows = false;
  bool has_columns = false;
  int num_phases = 0;
  size_t num_sums = 0;
  for (const TensorUpdate& update : batch) {
    const ops::SumsOfOp sums = SumsOf(update);
    has_rows |= sums.has_row_state;
    has_columns |= sums.has_column_state;
    num_phases = std::max(num_phases, sums.num_phases);
    num_sums += sums.size();
  }
  if (has_rows) RunRows(kernels, threads);
  if (has_columns) RunColumns(kernels, threads);
  if (num_phases > 0) Reserve(num_sums);
  for (int phase = 0; phase < num_phases; ++phase) {
    RunPhase(kernels, threads, phase);
  }
}

void KeySums::Reserve(size_t num_sums) {
  sums_.resize(num_sums + 1);  // so that even none has an address
  first_sum_.reserve(batch_.size());
  size_t next = 0;
  for (const TensorUpdate& update : batch_) {
    first_sum_.push_back(next);
    next += SumsOf(update).size();
  }
}

template <typename CutOf>
std::vector<KeySums::Part> KeySums::PartsOf(CutOf cut_of) const {
  std::vector<Part> parts;
  for (size_t i = 0; i < batch_.size(); ++i) {
    if (batch_[i].value.num_elements == 0) continue;
    const Cut cut = cut_of(batch_[i], SumsOf(batch_[i]));
    for (int64_t at = 0; at < cut.end; at += cut.size) {
      parts.push_back({i, at, std::min(at + cut.size, cut.end)});
    }
  }
  return parts;
}

void KeySums::RunRows(const KernelTable& kernels, ThreadPool& threads) {
  const std::vector<Part> rows = PartsOf([](const auto& update, auto sums) {
    return sums.has_row_state ? Cut{update.num_rows, RowsOfPart(update)}
                              : Cut();
  });
  threads.ParallelFor(rows.size(), [&](size_t i) {
    const auto [update, begin, end] = rows[i];
    UpdateRows(kernels, batch_[update], begin, end);
  });
}

void KeySums::RunColumns(const KernelTable& kernels, ThreadPool& threads) {
  const std::vector<Part> columns = PartsOf([](const auto& update, auto sums) {
    return sums.has_column_state ? Cut{NumColumns(update), kBlockElements}
                                 : Cut();
  });
  std::vector<ColumnPart> parts;
  std::vector<size_t> first_sum(batch_.size());
  size_t num_sums = 0;
  for (const auto& [i, begin, end] : columns) {
    if (begin == 0) first_sum[i] = num_sums;
    const size_t num_parts =
        AddParts(batch_[i], i, begin, end, first_sum[i], parts);
    num_sums += num_parts * (end - begin);
  }
  std::vector<double> sums(num_sums);
  threads.ParallelFor(parts.size(), [&](size_t i) {
    const ColumnPart& part = parts[i];
    SumColumns(kernels, batch_[part.update], part.of, &sums[part.first_sum]);
  });
  threads.ParallelFor(columns.size(), [&](size_t i) {
    const auto [update, begin, end] = columns[i];
    UpdateColumns(kernels, batch_[update], begin, end,
                  &sums[first_sum[update]]);
  });
}

void KeySums::RunPhase(const KernelTable& kernels, ThreadPool& threads,
                       int phase) {
  const std::vector<Part> parts = PartsOf([=](const auto& update, auto sums) {
    return phase < sums.num_phases
               ? Cut{update.value.num_elements, ops::kSumPartElements}
               : Cut();
  });
  std::vector<double> partial(parts.size() * ops::kMaxSums);
  threads.ParallelFor(parts.size(), [&](size_t i) {
    const auto [update, begin, end] = parts[i];
    SumRange(kernels, batch_[update], phase, Of(update), begin, end,
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
