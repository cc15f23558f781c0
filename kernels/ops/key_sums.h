// Sums over all elements of a key, which some rules need before they update the
// first: norms, and means of rows.
//
// A functor that needs sums has, beside what every functor has,
//
//   kNumPhases   how often the elements are read for sums: a later phase may
//                depend on the sums of the ones before
//   kNumSums     how many sums each phase makes, at most kMaxSums
//   Terms        sets what an element adds to the sums of a phase
//   NumTerms     how many terms of a phase, the first ones, may be other than
//                0; all, of a functor without it
//   SetSums      gives the functor the sums of a phase: called once for each
//                phase, in order, before elements are updated
//
// and, to have one sum for each row, before the phases,
//
//   kRowState    which of its states is one element per row
//   RowTerm      what an element adds to the sum of its row
//   UpdateRow    returns the new state of a row, by the sum of its terms, their
//                number and the state before
//   OfRow        returns what an element gets in place of that state: what can
//                be computed once per row; a functor without it gets the state
//
// and, besides, to have one for each column, after the rows,
//
//   kColumnState, OfColumn, and UpdateColumn, which gets the sum of RowTerm
//   over the column
//
// The sums are doubles whose order is fixed, whoever adds them: element i of a
// part goes to lane i % kSumLanes, each lane is added up from the left, then
// the upper half of the lanes is added to the lower one until one is left. The
// parts are kSumPartElements of a key, whose sums are added in the same way; or
// they are rows. Columns are divided into parts of RowsOfColumnPart rows: each
// part is added up from the top, and so are the parts.

#ifndef TENSORKV_KERNELS_OPS_KEY_SUMS_H_
#define TENSORKV_KERNELS_OPS_KEY_SUMS_H_

#include <stdint.h>

#include "kernels/ops/host_device.h"

namespace tensorkv::ops {

inline constexpr int kSumLanes = 128;
inline constexpr uint64_t kSumPartElements = 16 * 1024;
inline constexpr int kMaxSums = 3;

// RowsOfColumnPart returns the rows that one part of each column has: so many
// that the sums of the parts take little memory (there are at most
// kMaxColumnParts to a column, and at most one to kMinColumnPart rows), and
// that a part of all columns is no less work than a part of a key.
inline constexpr uint64_t kMaxColumnParts = 128;
inline constexpr uint64_t kMinColumnPart = 64;

// REQUIRES, here and below: there are elements.
HOST_DEVICE uint64_t RowsOfColumnPart(uint64_t num_rows, uint64_t num_columns) {
  uint64_t num_parts = num_rows / kMinColumnPart;
  if (num_parts == 0) return num_rows;
  if (num_parts > kMaxColumnParts) num_parts = kMaxColumnParts;
  const uint64_t rows = (num_rows + num_parts - 1) / num_parts;
  const uint64_t large = (kSumPartElements + num_columns - 1) / num_columns;
  return rows < large ? large : rows;
}

// Returns the number of parts of each column.
HOST_DEVICE uint64_t NumColumnParts(uint64_t num_rows, uint64_t num_columns) {
  const uint64_t rows = RowsOfColumnPart(num_rows, num_columns);
  return (num_rows + rows - 1) / rows;
}

template <typename Op>
inline constexpr bool kHasRowState = requires {
  Op::kRowState;
};

template <typename Op>
inline constexpr bool kHasColumnState = requires {
  Op::kColumnState;
};

// Returns how many terms of a phase, the first ones, may be other than 0.
template <typename Op>
constexpr int NumTerms(int phase) {
  if constexpr (requires { Op::NumTerms(phase); }) {
    return Op::NumTerms(phase);
  } else {
    return Op::kNumSums;
  }
}

// Returns whether state `k` of the functor has an element for each element of
// the value: it is neither per row nor per column.
template <typename Op>
HOST_DEVICE constexpr bool IsOfElements(int k) {
  if constexpr (kHasColumnState<Op>) {
    if (k == Op::kColumnState) return false;
  }
  if constexpr (kHasRowState<Op>) return k != Op::kRowState;
  return true;
}

// Return what an element gets in place of its row's state, or its column's.
template <typename Op, typename T>
HOST_DEVICE T OfRow(const Op& op, T state) {
  if constexpr (requires { op.OfRow(state); }) {
    return op.OfRow(state);
  } else {
    return state;
  }
}
template <typename Op, typename T>
HOST_DEVICE T OfColumn(const Op& op, T state) {
  if constexpr (requires { op.OfColumn(state); }) {
    return op.OfColumn(state);
  } else {
    return state;
  }
}

// Stands for the terms of rows and columns among the numbers of phases.
inline constexpr int kRowPhase = -1;

// The sums that a functor needs.
struct SumsOfOp {
  int num_phases = 0;
  int num_sums = 0;
  bool has_row_state = false;
  bool has_column_state = false;

  // Returns whether the functor needs any.
  constexpr bool any() const { return num_phases > 0 || has_row_state; }
  // Doubles that hold the sums of all phases.
  constexpr int size() const { return num_phases * num_sums; }
};

// Returns the sums that Op needs.
template <typename Op>
constexpr SumsOfOp SumsOf() {
  static_assert(!kHasColumnState<Op> || kHasRowState<Op>);
  SumsOfOp sums = {.has_row_state = kHasRowState<Op>,
                   .has_column_state = kHasColumnState<Op>};
  if constexpr (requires { Op::kNumPhases; }) {
    static_assert(Op::kNumSums <= kMaxSums);
    sums.num_phases = Op::kNumPhases;
    sums.num_sums = Op::kNumSums;
  }
  return sums;
}

// Gives the functor the sums of its first `num_phases` phases, which lie in
// `sums` one phase after another. Does nothing to a functor without phases.
template <typename Op>
HOST_DEVICE void SetSums(const double* sums, int num_phases, Op& op) {
  if constexpr (requires { Op::kNumPhases; }) {
    for (int phase = 0; phase < num_phases; ++phase) {
      op.SetSums(phase, sums + phase * Op::kNumSums);
    }
  }
}

// Returns the sum of the kSumLanes lanes. Overwrites the lanes.
inline double SumOfLanes(double* lanes) {
  for (int half = kSumLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// Returns the sum of the lanes, of which those from `count` on are 0, with the
// same bits as SumOfLanes. Overwrites the lanes.
inline double SumOfFirstLanes(double* lanes, int64_t count) {
  int64_t half = kSumLanes / 2;
  while (half >= count && half > 0) half /= 2;
  for (; half > 0; count = half, half /= 2) {
    for (int64_t i = 0; i + half < count; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_KEY_SUMS_H_
