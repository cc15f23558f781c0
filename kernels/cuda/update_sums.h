// The work of one thread of the kernels that make the sums of a key, its rows
// and its columns (kernels/ops/key_sums.h): for host and device.

#ifndef TENSORKV_KERNELS_CUDA_UPDATE_SUMS_H_
#define TENSORKV_KERNELS_CUDA_UPDATE_SUMS_H_

#include <stdint.h>

#include <type_traits>

#include "kernels/cuda/element_packs.h"
#include "kernels/cuda/update_elements.h"
#include "kernels/cuda/update_inputs.h"
#include "kernels/cuda/update_work.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/key_sums.h"

namespace tensorkv {

// In launches that make sums each of the kThreadsPerBlock threads is a lane: it
// adds up the terms of its lane, the block adds up the lanes, and one thread
// stores the sum.
static_assert(kThreadsPerBlock == ops::kSumLanes);

template <typename Op>
inline constexpr int kNumSums = ops::SumsOf<Op>().num_sums;

template <typename Op>
HOST_DEVICE const Op& FunctorAt(const UpdateWork& work,
                                const UpdateEntry& entry) {
  return *reinterpret_cast<const Op*>(work.functors + entry.functor_offset);
}

// Loads the present value, and the sum of the contributions or, where the entry
// averages, their mean: launches that make sums do not know which before.
template <typename T, int size>
HOST_DEVICE void LoadSumOrMean(const UpdateWork& work, const UpdateEntry& entry,
                               PackRange range, T (&g)[size], T (&w)[size]) {
  LoadValue(entry, range, w);
  if constexpr (std::is_floating_point_v<T>) {
    if (entry.num_averaged > 0 || entry.weights > 0) {
      return LoadContributions<true>(work, entry, range, g);
    }
  }
  LoadContributions<false>(work, entry, range, g);
}

// Loads the sum or mean `g` of the contributions to element `at`, and its
// present value `w`.
template <typename T>
HOST_DEVICE void LoadElement(const UpdateWork& work, const UpdateEntry& entry,
                             uint64_t at, T& g, T& w) {
  T sums[kPackElements<T>] = {};
  T values[kPackElements<T>] = {};
  LoadSumOrMean(work, entry, {at, 1}, sums, values);
  g = sums[0];
  w = values[0];
}

// Returns what element `at` adds to the sums of its row and column.
template <typename Op, typename T>
HOST_DEVICE double RowTermAt(const UpdateWork& work, const UpdateEntry& entry,
                             uint64_t at) {
  T g;
  T w;
  LoadElement(work, entry, at, g, w);
  return FunctorAt<Op>(work, entry).RowTerm(w, g);
}

// The rows [begin, end) of a chunk.
struct RowRange {
  uint64_t begin;
  uint64_t end;
};
HOST_DEVICE RowRange RowsOf(const UpdateWork& work, uint32_t chunk) {
  const WorkChunk place = work.chunks[chunk];
  const UpdateEntry& entry = work.entries[place.entry];
  const uint64_t most = RowsOfChunk(entry.row_elements);
  const uint64_t num_rows = entry.num_elements / entry.row_elements;
  const uint64_t begin = place.index * most;
  return {begin, num_rows - begin < most ? num_rows : begin + most};
}

// Returns the sum of the terms of a row that belong to lane `lane`.
template <typename Op, typename T>
HOST_DEVICE double SumLaneOfRow(const UpdateWork& work, uint32_t chunk,
                                uint64_t row, uint32_t lane) {
  const UpdateEntry& entry = work.entries[work.chunks[chunk].entry];
  const uint64_t begin = row * entry.row_elements;
  double sum = 0;
  for (uint64_t i = lane; i < entry.row_elements; i += ops::kSumLanes) {
    sum += RowTermAt<Op, T>(work, entry, begin + i);
  }
  return sum;
}

// Updates the state of row `row` by the sum of its terms.
template <typename Op, typename T>
HOST_DEVICE void UpdateRow(const UpdateWork& work, uint32_t chunk, uint64_t row,
                           double sum) {
  const UpdateEntry& entry = work.entries[work.chunks[chunk].entry];
  T& state = static_cast<T*>(entry.states[Op::kRowState])[row];
  state = FunctorAt<Op>(work, entry).UpdateRow(sum, entry.row_elements, state);
}

// Returns where in scratch the sums of the parts of an entry's columns are.
template <typename Op>
HOST_DEVICE double* ColumnSumsOf(const UpdateWork& work,
                                 const UpdateEntry& entry) {
  return work.scratch + entry.first_sum + ops::SumsOf<Op>().size();
}

// Returns the sum of a column's terms over the rows [row, end).
template <typename Op, typename T>
HOST_DEVICE double SumOfColumn(const UpdateWork& work, const UpdateEntry& entry,
                               uint64_t column, uint64_t row, uint64_t end) {
  const uint64_t columns = entry.row_elements;
  double sum = 0;
  for (uint64_t at = row * columns + column; at < end * columns;
       at += columns) {
    sum += RowTermAt<Op, T>(work, entry, at);
  }
  return sum;
}

// Stores in scratch the sum of part `lane` of a chunk: a part of a column.
template <typename Op, typename T>
HOST_DEVICE void SumColumnPart(const UpdateWork& work, uint32_t chunk,
                               uint32_t lane) {
  const WorkChunk place = work.chunks[chunk];
  const UpdateEntry& entry = work.entries[place.entry];
  const uint64_t columns = entry.row_elements;
  const uint64_t num_rows = entry.num_elements / columns;
  const uint64_t rows = ops::RowsOfColumnPart(num_rows, columns);
  const uint64_t part = uint64_t(place.index) * ops::kSumLanes + lane;
  const uint64_t row = part / columns * rows;
  if (row >= num_rows) return;
  const uint64_t end = row + rows < num_rows ? row + rows : num_rows;
  ColumnSumsOf<Op>(work, entry)[part] =
      SumOfColumn<Op, T>(work, entry, part % columns, row, end);
}

// Updates the state of a chunk's column `lane`.
template <typename Op, typename T>
HOST_DEVICE void UpdateColumn(const UpdateWork& work, uint32_t chunk,
                              uint32_t lane) {
  const WorkChunk place = work.chunks[chunk];
  const UpdateEntry& entry = work.entries[place.entry];
  const uint64_t column = uint64_t(place.index) * ops::kSumLanes + lane;
  const uint64_t columns = entry.row_elements;
  if (column >= columns) return;
  const uint64_t num_rows = entry.num_elements / columns;
  const uint64_t num_parts = ops::NumColumnParts(num_rows, columns);
  const double* const sums = ColumnSumsOf<Op>(work, entry);
  double sum = 0;
  if (num_parts == 1) {
    sum = SumOfColumn<Op, T>(work, entry, column, 0, num_rows);
  } else {
    for (uint64_t i = 0; i < num_parts; ++i) sum += sums[i * columns + column];
  }
  T& state = static_cast<T*>(entry.states[Op::kColumnState])[column];
  state = FunctorAt<Op>(work, entry).UpdateColumn(sum, num_rows, state);
}

// Adds the terms of a chunk that belong to lane `lane` to `sums`.
template <typename Op, typename T>
HOST_DEVICE void AddToLane(const UpdateWork& work, uint32_t chunk,
                           uint32_t lane, double (&sums)[kNumSums<Op>]) {
  const WorkChunk place = work.chunks[chunk];
  const UpdateEntry& entry = work.entries[place.entry];
  Op op = FunctorAt<Op>(work, entry);
  ops::SetSums(work.scratch + entry.first_sum, work.phase, op);
  const uint64_t begin = uint64_t(place.index) * kChunkElements;
  const uint64_t left = entry.num_elements - begin;
  const uint64_t count = left < kChunkElements ? left : kChunkElements;
  for (uint64_t i = lane; i < count; i += ops::kSumLanes) {
    T g;
    T w;
    LoadElement(work, entry, begin + i, g, w);
    T states[Op::kNumStates];
    for (int k = 0; k < Op::kNumStates; ++k) {
      T state[1];
      LoadStateOf(op, entry, k, {begin + i, 1}, state);
      states[k] = state[0];
    }
    double terms[kNumSums<Op>];
    op.Terms(work.phase, w, g, states, terms);
    for (int k = 0; k < kNumSums<Op>; ++k) sums[k] += terms[k];
  }
}

// Stores the sums of a chunk in scratch, for AddChunksToLane.
template <typename Op>
HOST_DEVICE void StoreChunkSums(const UpdateWork& work, uint32_t chunk,
                                const double (&sums)[kNumSums<Op>]) {
  const WorkChunk place = work.chunks[chunk];
  const UpdateEntry& entry = work.entries[place.entry];
  double* const out = work.scratch + entry.first_sum +
                      ops::SumsOf<Op>().size() +
                      uint64_t(place.index) * kNumSums<Op>;
  for (int k = 0; k < kNumSums<Op>; ++k) out[k] = sums[k];
}

// Adds the sums of a tensor's chunks that belong to lane `lane` to `sums`.
template <typename Op>
HOST_DEVICE void AddChunksToLane(const UpdateWork& work, uint32_t chunk,
                                 uint32_t lane, double (&sums)[kNumSums<Op>]) {
  const UpdateEntry& entry = work.entries[work.chunks[chunk].entry];
  const double* const in =
      work.scratch + entry.first_sum + ops::SumsOf<Op>().size();
  const uint64_t num_chunks =
      (entry.num_elements + kChunkElements - 1) / kChunkElements;
  for (uint64_t i = lane; i < num_chunks; i += ops::kSumLanes) {
    for (int k = 0; k < kNumSums<Op>; ++k) sums[k] += in[i * kNumSums<Op> + k];
  }
}

// Stores the sums of a tensor in the present phase in scratch, for
// ops::SetSums.
template <typename Op>
HOST_DEVICE void StoreTensorSums(const UpdateWork& work, uint32_t chunk,
                                 const double (&sums)[kNumSums<Op>]) {
  const UpdateEntry& entry = work.entries[work.chunks[chunk].entry];
  double* const out =
      work.scratch + entry.first_sum + work.phase * kNumSums<Op>;
  for (int k = 0; k < kNumSums<Op>; ++k) out[k] = sums[k];
}

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_UPDATE_SUMS_H_
