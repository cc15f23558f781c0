#include "kernels/cpu/column_sums.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/cpu/range_update.h"
#include "kernels/ops/key_sums.h"

namespace tensorkv {
namespace {

// The sums of parts of columns that are in memory at a time, 1 MiB: those of a
// block of columns at least.
constexpr int64_t kMaxColumnSums = ops::kMaxColumnParts * kBlockElements;

// Sums of columns that stay in a second-level cache while rows are added: 128
// KiB. So many threads at least have parts of one key at a time.
constexpr int64_t kMinPartsAtATime = 8;
constexpr int64_t kMaxSharedColumns = kMaxColumnSums / kMinPartsAtATime;

// How many elements a key whose columns are one part may have to be the work of
// one thread.
constexpr int64_t kMaxAloneElements = 16 * ops::kSumPartElements;

// How the rows of an update are cut into parts of its columns.
struct RowCut {
  int64_t num_parts;
  int64_t rows_of_part;

  static RowCut Create(const TensorUpdate& update) {
    const auto num_rows = static_cast<uint64_t>(update.num_rows);
    const auto num_columns = static_cast<uint64_t>(NumColumns(update));
    return {static_cast<int64_t>(ops::NumColumnParts(num_rows, num_columns)),
            static_cast<int64_t>(ops::RowsOfColumnPart(num_rows, num_columns))};
  }

  int64_t BeginOf(int64_t part) const { return part * rows_of_part; }
  int64_t EndOf(int64_t part, const TensorUpdate& update) const {
    return std::min(BeginOf(part + 1), update.num_rows);
  }
};

void AddTo(const double* sums, std::vector<double>& totals) {
  for (size_t i = 0; i < totals.size(); ++i) totals[i] += sums[i];
}

// Updates all of them on this thread.
void UpdateAlone(const KernelTable& kernels, const TensorUpdate& update) {
  std::vector<double> sums(NumColumns(update));
  UpdateRows(kernels, update, 0, update.num_rows, sums.data());
  UpdateColumns(kernels, update, 0, NumColumns(update), sums.data(),
                /*num_parts=*/1);
}

// Takes some parts at a time, of all columns.
void UpdateInTurns(const KernelTable& kernels, ThreadPool& threads,
                   const TensorUpdate& update, const RowCut& cut) {
  const int64_t num_columns = NumColumns(update);
  const int64_t most = kMaxColumnSums / num_columns;
  std::vector<double> totals(num_columns);
  std::vector<double> sums;
  for (int64_t first = 0; first < cut.num_parts; first += most) {
    const int64_t count = std::min(most, cut.num_parts - first);
    sums.assign(count * num_columns, 0.0);
    threads.ParallelFor(count, [&](size_t i) {
      const int64_t part = first + static_cast<int64_t>(i);
      UpdateRows(kernels, update, cut.BeginOf(part), cut.EndOf(part, update),
                 &sums[i * num_columns]);
    });
    for (int64_t i = 0; i < count; ++i) {
      AddTo(&sums[i * num_columns], totals);
    }
  }
  UpdateColumns(kernels, update, 0, num_columns, totals.data(),
                /*num_parts=*/1);
}

void UpdateWideRows(const KernelTable& kernels, ThreadPool& threads,
                    const TensorUpdate& update) {
  threads.ParallelFor(update.num_rows, [&](size_t i) {
    const auto row = static_cast<int64_t>(i);
    UpdateRows(kernels, update, row, row + 1);
  });
}

// Takes some blocks of columns at a time, of all rows.
void UpdateWideColumns(const KernelTable& kernels, ThreadPool& threads,
                       const TensorUpdate& update, const RowCut& cut) {
  const int64_t num_columns = NumColumns(update);
  const int64_t sums_of_block = cut.num_parts * kBlockElements;
  const int64_t most = kMaxColumnSums / sums_of_block * kBlockElements;
  std::vector<double> sums(kMaxColumnSums);
  const auto end_of = [&](int64_t column) {
    return std::min(column + kBlockElements, num_columns);
  };
  for (int64_t first = 0; first < num_columns; first += most) {
    const int64_t end = std::min(first + most, num_columns);
    const int64_t num_blocks =
        (end - first + kBlockElements - 1) / kBlockElements;
    threads.ParallelFor(num_blocks * cut.num_parts, [&](size_t i) {
      const int64_t block = static_cast<int64_t>(i) / cut.num_parts;
      const int64_t part = static_cast<int64_t>(i) % cut.num_parts;
      const int64_t column = first + block * kBlockElements;
      const int64_t width = end_of(column) - column;
      SumColumns(
          kernels, update,
          {cut.BeginOf(part), cut.EndOf(part, update), column, end_of(column)},
          &sums[block * sums_of_block + part * width]);
    });
    threads.ParallelFor(num_blocks, [&](size_t block) {
      const int64_t column =
          first + static_cast<int64_t>(block) * kBlockElements;
      UpdateColumns(kernels, update, column, end_of(column),
                    &sums[block * sums_of_block], cut.num_parts);
    });
  }
}

}  // namespace

int64_t NumColumns(const TensorUpdate& update) {
  return update.value.num_elements / update.num_rows;
}

void UpdateRowsAndColumns(const KernelTable& kernels, ThreadPool& threads,
                          absl::Span<const TensorUpdate* const> updates) {
  std::vector<const TensorUpdate*> of_one_part;
  for (const TensorUpdate* const update : updates) {
    const RowCut cut = RowCut::Create(*update);
    if (NumColumns(*update) > kMaxSharedColumns ||
        (cut.num_parts == 1 &&
         update->value.num_elements > kMaxAloneElements)) {
      UpdateWideRows(kernels, threads, *update);
      UpdateWideColumns(kernels, threads, *update, cut);
    } else if (cut.num_parts > 1) {
      UpdateInTurns(kernels, threads, *update, cut);
    } else {
      of_one_part.push_back(update);
    }
  }
  threads.ParallelFor(of_one_part.size(),
                      [&](size_t i) { UpdateAlone(kernels, *of_one_part[i]); });
}

}  // namespace tensorkv
