// What one thread of an update kernel does, for host and device: the kernel
// runs it on every thread, the fake device in a loop.

#ifndef TENSORKV_KERNELS_CUDA_UPDATE_ELEMENTS_H_
#define TENSORKV_KERNELS_CUDA_UPDATE_ELEMENTS_H_

#include <stdint.h>

#include <type_traits>

#include "kernels/cuda/element_packs.h"
#include "kernels/cuda/update_work.h"
#include "kernels/expression/bytecode.h"
#include "kernels/expression/run_pack.h"
#include "kernels/ops/arithmetic.h"
#include "kernels/ops/element.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/key_sums.h"
#include "kernels/ops/middle_mean.h"
#include "kernels/ops/unpack.h"

namespace tensorkv {

// Threads of a block. A tensor of 4 KiB of f32 takes one step of them all.
inline constexpr uint32_t kThreadsPerBlock = 128;

// out[index] = element, where `index` is known only when the kernel runs. A
// compiler that does not know it has the whole array in memory, and all loads
// of packs wait for that.
template <typename T, int size>
HOST_DEVICE void SetElement(T (&out)[size], int index, T element) {
  for (int i = 0; i < size; ++i) out[i] = i == index ? element : out[i];
}

// `first` is that of the range in what is packed. Elements past the range's end
// are zero.
template <typename T, int size>
HOST_DEVICE void Unpack(const Packing& packing, const void* payload,
                        uint64_t first, PackRange range, T (&out)[size]) {
  for (T& element : out) element = T();
  const int count = range.count < size ? static_cast<int>(range.count) : size;
  for (int i = 0; i < count; ++i) {
    SetElement(out, i, ops::UnpackElement<T>(packing, payload, first + i));
  }
}

template <typename T, int size>
HOST_DEVICE void LoadContribution(const UpdateWork& work,
                                  const UpdateEntry& entry,
                                  const SourceArray& contribution,
                                  PackRange range, T (&out)[size]) {
  if constexpr (std::is_floating_point_v<T>) {
    if (contribution.packing > 0) {
      return Unpack(work.packings[contribution.packing - 1], contribution.data,
                    contribution.packed_first + range.first, range, out);
    }
  }
  Load(contribution, range, out);
}

// Adds 1 to each place that contribution `other` comes before.
template <bool is_earlier, typename T, int size>
HOST_DEVICE void CountBefore(const UpdateWork& work, const UpdateEntry& entry,
                             uint32_t other, PackRange range,
                             const T (&own)[size], uint32_t (&places)[size]) {
  T next[size];
  LoadContribution(work, entry,
                   work.contributions[entry.first_contribution + other], range,
                   next);
  for (int i = 0; i < size; ++i) {
    places[i] += ops::ComesBefore<is_earlier>(next[i], own[i]) ? 1 : 0;
  }
}

// What kernels/ops/middle_mean.h says. Every contribution is loaded for every
// other, which takes no memory.
template <typename T, int size>
HOST_DEVICE void AverageContributions(const UpdateWork& work,
                                      const UpdateEntry& entry, PackRange range,
                                      T (&mean)[size]) {
  const uint32_t count = entry.num_contributions;
  const ops::Middle middle = ops::Middle::Create(count, entry.num_averaged);
  for (T& sum : mean) sum = ops::kNoSum<T>;
  for (uint32_t k = 0; k < count; ++k) {
    T own[size];
    LoadContribution(work, entry,
                     work.contributions[entry.first_contribution + k], range,
                     own);
    uint32_t places[size] = {};
    for (uint32_t other = 0; other < k; ++other) {
      CountBefore<true>(work, entry, other, range, own, places);
    }
    for (uint32_t other = k + 1; other < count; ++other) {
      CountBefore<false>(work, entry, other, range, own, places);
    }
    for (int i = 0; i < size; ++i) {
      if (middle.Has(places[i])) mean[i] += own[i];
    }
  }
  for (T& sum : mean) sum = sum / T(entry.num_averaged);
}

// From the first contribution on, each is added to the sum of those before it.
template <typename T, int size>
HOST_DEVICE void SumContributions(const UpdateWork& work,
                                  const UpdateEntry& entry, PackRange range,
                                  T (&sum)[size]) {
  const SourceArray* const contributions =
      work.contributions + entry.first_contribution;
  for (uint32_t k = 0; k < entry.num_contributions; ++k) {
    T next[size];
    LoadContribution(work, entry, contributions[k], range, next);
    for (int i = 0; i < size; ++i) {
      sum[i] = k == 0 ? next[i] : ops::Add(sum[i], next[i]);
    }
  }
}

// A state that the update lacks has no memory.
template <typename T, int size>
HOST_DEVICE void LoadState(const void* state, PackRange range, T (&out)[size]) {
  LoadPack<NativeElement<T>>(state, range, out);
}
template <typename T, int size>
HOST_DEVICE void StoreNative(const T (&in)[size], PackRange range, void* out) {
  StorePack<NativeElement<T>>(in, range, out);
}

// Whether state `k` of the functor has an element for each element.
template <typename Op>
HOST_DEVICE bool IsOfElements(int k) {
  if constexpr (ops::kHasColumnState<Op>) {
    if (k == Op::kColumnState) return false;
  }
  if constexpr (ops::kHasRowState<Op>) return k != Op::kRowState;
  return true;
}

// What the functor gets for its state `k`, of the range's elements or of their
// rows or columns.
template <typename Op, typename T, int size>
HOST_DEVICE void LoadStateOf(const Op& op, const UpdateEntry& entry, int k,
                             PackRange range, T (&out)[size]) {
  if (IsOfElements<Op>(k)) return LoadState(entry.states[k], range, out);
  if constexpr (ops::kHasRowState<Op>) {
    const T* const state = static_cast<const T*>(entry.states[k]);
    const uint64_t columns = entry.row_elements;
    for (int i = 0; i < size; ++i) {
      const uint64_t at = range.first + i;
      out[i] = T();
      if (uint64_t(i) >= range.count) continue;
      out[i] = k == Op::kRowState ? ops::OfRow(op, state[at / columns])
                                  : state[at % columns];
    }
  }
}

// All states of the functor.
template <typename Op, typename T, int places, int size>
HOST_DEVICE void LoadStates(const Op& op, const UpdateEntry& entry,
                            PackRange range, T (&states)[places][size]) {
  for (int k = 0; k < Op::kNumStates; ++k) {
    LoadStateOf(op, entry, k, range, states[k]);
  }
}

// new_w = op(w, g, states), and the states after it in memory.
template <typename Op, typename T, int places, int size>
HOST_DEVICE void Step(const Op& op, const UpdateEntry& entry, PackRange range,
                      const T (&g)[size], T (&w)[size],
                      T (&states)[places][size]) {
  for (int i = 0; i < size; ++i) {
    T element[places];
    for (int k = 0; k < Op::kNumStates; ++k) element[k] = states[k][i];
    w[i] = ops::UpdateElement(op, w[i], g[i], element,
                              entry.first_element + range.first + i);
    for (int k = 0; k < Op::kNumStates; ++k) states[k][i] = element[k];
  }
  for (int k = 0; k < Op::kNumStates; ++k) {
    if (!IsOfElements<Op>(k)) continue;
    StoreNative(states[k], range, entry.states[k]);
  }
}

// The same for a program.
template <typename T, int size>
HOST_DEVICE void RunProgram(const ops::Expression<T>& program,
                            const UpdateEntry& entry, PackRange range,
                            const T (&g)[size], T (&w)[size]) {
  T slots[expression::kNumSlots][size];
  for (int i = 0; i < size; ++i) {
    slots[expression::kStoredSlot][i] = w[i];
    slots[expression::kGradSlot][i] = g[i];
  }
  for (int k = 0; k < program.num_states; ++k) {
    LoadState(entry.states[k], range, slots[expression::kFirstStateSlot + k]);
  }
  expression::RunPack(program, slots);
  for (int k = 0; k < program.num_states; ++k) {
    StoreNative(slots[expression::kFirstStateSlot + k], range, entry.states[k]);
  }
  for (int i = 0; i < size; ++i) w[i] = slots[expression::kStoredSlot][i];
}

// What a functor computes of: the sum of the contributions, or their mean, and
// the present value.
template <bool averages, typename T, int size>
HOST_DEVICE void LoadContributions(const UpdateWork& work,
                                   const UpdateEntry& entry, PackRange range,
                                   T (&g)[size]) {
  if constexpr (averages) {
    AverageContributions(work, entry, range, g);
  } else {
    SumContributions(work, entry, range, g);
  }
}
template <typename T, int size>
HOST_DEVICE void LoadValue(const UpdateEntry& entry, PackRange range,
                           T (&w)[size]) {
  if (entry.current.data != nullptr) Load(entry.current, range, w);
}

// How a thread takes the elements of a chunk. gpu_benchmark measures others
// beside this one.
template <typename T>
struct PackShape {
  using Element = T;
  static constexpr int kElements = kPackElements<T>;
  // Whether the value and the states are asked for before the contributions,
  // which take a look at the table first: so all are on their way at once.
  static constexpr bool kLoadsEarly = true;
  // Whether the entry is read from the table once, and not for each pack: that
  // takes registers, of which adam then has 80 in place of 72, so that one
  // block less fits a multiprocessor of sm_90.
  static constexpr bool kCopiesEntry = false;
};

template <typename Shape, bool averages, typename Op>
HOST_DEVICE void UpdatePack(const Op& op, const UpdateWork& work,
                            const UpdateEntry& entry, PackRange range) {
  using T = typename Shape::Element;
  T g[Shape::kElements] = {};
  T w[Shape::kElements] = {};
  if constexpr (expression::kIsProgram<Op>) {
    LoadValue(entry, range, w);
    LoadContributions<averages>(work, entry, range, g);
    RunProgram(op, entry, range, g, w);
  } else {
    T states[ops::kStatePlaces<Op>][Shape::kElements];
    const auto load_contributions = [&] {
      LoadContributions<averages>(work, entry, range, g);
    };
    if constexpr (!Shape::kLoadsEarly) load_contributions();
    LoadValue(entry, range, w);
    LoadStates(op, entry, range, states);
    if constexpr (Shape::kLoadsEarly) load_contributions();
    Step(op, entry, range, g, w, states);
  }
  if (entry.master != nullptr) StoreNative(w, range, entry.master);
  Store(w, range, entry.value_type, entry.value);
}

// Functors are copied to registers; programs are read where they are, since of
// their bytes only those in use are there.
template <typename Op>
struct FunctorOf {
  using Type = Op;
};
template <typename T>
struct FunctorOf<ops::Expression<T>> {
  using Type = const ops::Expression<T>&;
};
template <typename Op>
using Functor = typename FunctorOf<Op>::Type;

// What thread `thread` of a block does for task `task`, a part of a chunk. The
// threads' packs take turns, so that neighbours touch neighbouring memory.
// REQUIRES: the launch is of Op and T, and its entries average or sum.
template <typename Op, typename T, bool averages, typename Shape = PackShape<T>>
HOST_DEVICE void UpdateChunk(const UpdateWork& work, uint32_t task,
                             uint32_t thread) {
  constexpr uint64_t kPack = Shape::kElements;
  const WorkChunk place = work.chunks[task / work.num_parts];
  using Entry = std::conditional_t<Shape::kCopiesEntry, const UpdateEntry,
                                   const UpdateEntry&>;
  Entry entry = work.entries[place.entry];
  const uint64_t part_elements = kChunkElements / work.num_parts;
  const uint64_t begin = uint64_t(place.index) * kChunkElements +
                         task % work.num_parts * part_elements;
  if (begin >= entry.num_elements) return;
  Functor<Op> op =
      *reinterpret_cast<const Op*>(work.functors + entry.functor_offset);
  ops::TakeSums(work.scratch + entry.first_sum, ops::SumsOf<Op>().num_phases,
                op);
  const uint64_t left = entry.num_elements - begin;
  const uint64_t count = left < part_elements ? left : part_elements;
  for (uint64_t at = thread * kPack; at < count;
       at += kThreadsPerBlock * kPack) {
    UpdatePack<Shape, averages>(op, work, entry, {begin + at, count - at});
  }
}

// --- Sums -------------------------------------------------------------------

// Launches that make sums have kThreadsPerBlock threads as lanes: every thread
// adds up what its lane has, the block adds up the lanes, and one thread takes
// the sums.
static_assert(kThreadsPerBlock == ops::kSumLanes);

template <typename Op>
inline constexpr int kNumSums = ops::SumsOf<Op>().num_sums;

template <typename Op>
HOST_DEVICE const Op& FunctorAt(const UpdateWork& work,
                                const UpdateEntry& entry) {
  return *reinterpret_cast<const Op*>(work.functors + entry.functor_offset);
}

// For the launches that make sums, which know only when they run.
template <typename T, int size>
HOST_DEVICE void LoadSumOrMean(const UpdateWork& work, const UpdateEntry& entry,
                               PackRange range, T (&g)[size], T (&w)[size]) {
  LoadValue(entry, range, w);
  if constexpr (std::is_floating_point_v<T>) {
    if (entry.num_averaged > 0) {
      return LoadContributions<true>(work, entry, range, g);
    }
  }
  LoadContributions<false>(work, entry, range, g);
}

// The contribution to element `at` and its present value.
template <typename T>
HOST_DEVICE void LoadElement(const UpdateWork& work, const UpdateEntry& entry,
                             uint64_t at, T& g, T& w) {
  T sums[kPackElements<T>] = {};
  T values[kPackElements<T>] = {};
  LoadSumOrMean(work, entry, {at, 1}, sums, values);
  g = sums[0];
  w = values[0];
}

template <typename Op, typename T>
HOST_DEVICE double RowTermAt(const UpdateWork& work, const UpdateEntry& entry,
                             uint64_t at) {
  T g;
  T w;
  LoadElement(work, entry, at, g, w);
  return FunctorAt<Op>(work, entry).RowTerm(w, g);
}

// The rows of a chunk.
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

// What lane `lane` has of a row.
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

template <typename Op, typename T>
HOST_DEVICE void EndRow(const UpdateWork& work, uint32_t chunk, uint64_t row,
                        double sum) {
  const UpdateEntry& entry = work.entries[work.chunks[chunk].entry];
  T& state = static_cast<T*>(entry.states[Op::kRowState])[row];
  state = FunctorAt<Op>(work, entry).UpdateRow(sum, entry.row_elements, state);
}

// The sums of the parts of an entry's columns.
template <typename Op>
HOST_DEVICE double* ColumnSumsOf(const UpdateWork& work,
                                 const UpdateEntry& entry) {
  return work.scratch + entry.first_sum + ops::SumsOf<Op>().size();
}

// The sum of a column over the rows [row, end).
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

// Makes the sum of a chunk's part `lane` of a column.
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

// Adds what lane `lane` has of a chunk.
template <typename Op, typename T>
HOST_DEVICE void AddToLane(const UpdateWork& work, uint32_t chunk,
                           uint32_t lane, double (&sums)[kNumSums<Op>]) {
  const WorkChunk place = work.chunks[chunk];
  const UpdateEntry& entry = work.entries[place.entry];
  Op op = FunctorAt<Op>(work, entry);
  ops::TakeSums(work.scratch + entry.first_sum, work.phase, op);
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

// Takes the sums of a chunk.
template <typename Op>
HOST_DEVICE void EndChunk(const UpdateWork& work, uint32_t chunk,
                          const double (&sums)[kNumSums<Op>]) {
  const WorkChunk place = work.chunks[chunk];
  const UpdateEntry& entry = work.entries[place.entry];
  double* const out = work.scratch + entry.first_sum +
                      ops::SumsOf<Op>().size() +
                      uint64_t(place.index) * kNumSums<Op>;
  for (int k = 0; k < kNumSums<Op>; ++k) out[k] = sums[k];
}

// Adds what lane `lane` has of the sums of a tensor's chunks.
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

// Takes the sums of a tensor.
template <typename Op>
HOST_DEVICE void EndTensor(const UpdateWork& work, uint32_t chunk,
                           const double (&sums)[kNumSums<Op>]) {
  const UpdateEntry& entry = work.entries[work.chunks[chunk].entry];
  double* const out =
      work.scratch + entry.first_sum + work.phase * kNumSums<Op>;
  for (int k = 0; k < kNumSums<Op>; ++k) out[k] = sums[k];
}

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_UPDATE_ELEMENTS_H_
