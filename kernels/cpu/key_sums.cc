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

// The sums of parts of columns that are in memory at a time, 1 MiB, which no
// budget counts: those of a block of columns at least.
constexpr size_t kMaxColumnSums = ops::kMaxColumnParts * kBlockElements;

// Some columns of an update over a part of its rows, and where their sums go.
struct ColumnPart {
  const TensorUpdate* update;
  Rectangle of;
  size_t first_sum;
};

int64_t NumColumnParts(const TensorUpdate& update) {
  return ops::NumColumnParts(update.num_rows, NumColumns(update));
}

// Cuts columns over all rows into parts.
void AddParts(ColumnPart part, std::vector<ColumnPart>& parts) {
  const int64_t num_rows = part.update->num_rows;
  const int64_t rows =
      ops::RowsOfColumnPart(num_rows, NumColumns(*part.update));
  for (int64_t row = 0; row < num_rows; row += rows) {
    part.of.first_row = row;
    part.of.end_row = std::min(row + rows, num_rows);
    parts.push_back(part);
    part.first_sum += part.of.end_column - part.of.first_column;
  }
}

// Updates columns, whose only part is summed here, and others before: `sums`.
void UpdateColumns(const KernelTable& kernels, const ColumnPart& whole,
                   const double* sums) {
  double only_part[kBlockElements];
  const auto& [update, of, first_sum] = whole;
  const bool has_parts = NumColumnParts(*update) > 1;
  if (!has_parts) SumColumns(kernels, *update, of, only_part);
  UpdateColumns(kernels, *update, of.first_column, of.end_column,
                has_parts ? sums + first_sum : only_part);
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
  std::vector<double> sums;
  for (size_t next = 0; next < columns.size();) {
    std::vector<ColumnPart> wholes;
    std::vector<ColumnPart> parts;
    size_t num_sums = 0;
    for (; next < columns.size(); ++next) {
      const auto [i, begin, end] = columns[next];
      const TensorUpdate& update = batch_[i];
      const int64_t num_parts = NumColumnParts(update);
      const size_t size = num_parts > 1 ? num_parts * (end - begin) : 0;
      if (num_sums + size > kMaxColumnSums) break;
      wholes.push_back({&update, {0, update.num_rows, begin, end}, num_sums});
      if (size > 0) AddParts(wholes.back(), parts);
      num_sums += size;
    }
    sums.resize(num_sums);
    threads.ParallelFor(parts.size(), [&](size_t i) {
      const auto& [update, of, first_sum] = parts[i];
      SumColumns(kernels, *update, of, &sums[first_sum]);
    });
    threads.ParallelFor(wholes.size(), [&](size_t i) {
      UpdateColumns(kernels, wholes[i], sums.data());
    });
  }
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
