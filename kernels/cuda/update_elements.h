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
#include "kernels/ops/unpack.h"

namespace tensorkv {

// Threads of a block. A tensor of 4 KiB of f32 takes one step of them all.
inline constexpr uint32_t kThreadsPerBlock = 128;

// Elements past the range's end are zero.
template <typename T, int size>
HOST_DEVICE void Unpack(const Packing& packing, const void* payload,
                        PackRange range, T (&out)[size]) {
  for (int i = 0; i < size; ++i) {
    out[i] = uint64_t(i) < range.count
                 ? ops::UnpackElement<T>(packing, payload, range.first + i)
                 : T();
  }
}

template <typename T, int size>
HOST_DEVICE void LoadContribution(const UpdateWork& work,
                                  const SourceArray& contribution,
                                  PackRange range, T (&out)[size]) {
  if constexpr (std::is_floating_point_v<T>) {
    if (contribution.packing > 0) {
      return Unpack(work.packings[contribution.packing - 1], contribution.data,
                    range, out);
    }
  }
  Load(contribution, range, out);
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
    LoadContribution(work, contributions[k], range, next);
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

// State `k` of the functor's: of the range's elements, or of their rows.
template <typename Op, typename T, int size>
HOST_DEVICE void LoadStateOf(const UpdateEntry& entry, int k, PackRange range,
                             T (&out)[size]) {
  if constexpr (ops::kHasRowState<Op>) {
    if (k == Op::kRowState) {
      const T* const rows = static_cast<const T*>(entry.states[k]);
      for (int i = 0; i < size; ++i) {
        out[i] = uint64_t(i) < range.count
                     ? rows[(range.first + i) / entry.row_elements]
                     : T();
      }
      return;
    }
  }
  LoadState(entry.states[k], range, out);
}

// Whether the functor changes state `k` of an element.
template <typename Op>
HOST_DEVICE bool IsOfElements(int k) {
  if constexpr (ops::kHasRowState<Op>) return k != Op::kRowState;
  return true;
}

// new_w = op(w, g, states), and the states after it in memory.
template <typename Op, typename T, int size>
HOST_DEVICE void Step(const Op& op, const UpdateEntry& entry, PackRange range,
                      const T (&g)[size], T (&w)[size]) {
  constexpr int kPlaces = ops::kStatePlaces<Op>;
  T states[kPlaces][size];
  for (int k = 0; k < Op::kNumStates; ++k) {
    LoadStateOf<Op>(entry, k, range, states[k]);
  }
  for (int i = 0; i < size; ++i) {
    T element[kPlaces];
    for (int k = 0; k < Op::kNumStates; ++k) element[k] = states[k][i];
    w[i] = ops::UpdateElement(op, w[i], g[i], element, range.first + i);
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

// What a functor computes of: summed contributions and the present value.
template <typename T, int size>
HOST_DEVICE void LoadInputs(const UpdateWork& work, const UpdateEntry& entry,
                            PackRange range, T (&g)[size], T (&w)[size]) {
  SumContributions(work, entry, range, g);
  if (entry.current.data != nullptr) Load(entry.current, range, w);
}

template <typename Op, typename T>
HOST_DEVICE void UpdatePack(const Op& op, const UpdateWork& work,
                            const UpdateEntry& entry, PackRange range) {
  T g[kPackElements<T>] = {};
  T w[kPackElements<T>] = {};
  LoadInputs(work, entry, range, g, w);
  if constexpr (expression::kIsProgram<Op>) {
    RunProgram(op, entry, range, g, w);
  } else {
    Step(op, entry, range, g, w);
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

// What thread `thread` of a block does for chunk `chunk`. The threads' packs
// take turns, so that neighbours touch neighbouring memory.
// REQUIRES: the launch is of Op and T.
template <typename Op, typename T>
HOST_DEVICE void UpdateChunk(const UpdateWork& work, uint32_t chunk,
                             uint32_t thread) {
  constexpr uint64_t kPack = kPackElements<T>;
  const WorkChunk place = work.chunks[chunk];
  const UpdateEntry& entry = work.entries[place.entry];
  Functor<Op> op =
      *reinterpret_cast<const Op*>(work.functors + entry.functor_offset);
  ops::TakeSums(work.scratch + entry.first_sum, ops::SumsOf<Op>().num_phases,
                op);
  const uint64_t begin = uint64_t(place.index) * kChunkElements;
  const uint64_t left = entry.num_elements - begin;
  const uint64_t count = left < kChunkElements ? left : kChunkElements;
  for (uint64_t at = thread * kPack; at < count;
       at += kThreadsPerBlock * kPack) {
    UpdatePack<Op, T>(op, work, entry, {begin + at, count - at});
  }
}

// --- Sums -------------------------------------------------------------------

// A launch that makes sums has kThreadsPerBlock threads as lanes. For each part
// of a chunk, whose sums are apart: every thread calls AddToLane, the block
// adds up the lanes, and one thread calls EndPart with the sums.
static_assert(kThreadsPerBlock == ops::kSumLanes);

// The elements that one sum is over, [begin, end).
struct SumPart {
  uint64_t begin;
  uint64_t end;
};

// Sums that the functor makes of each part.
template <typename Op>
inline constexpr int kSumsOfPart = ops::kHasRowState<Op>
                                       ? 1
                                       : ops::SumsOf<Op>().num_sums;

// How many parts a chunk has.
template <typename Op>
HOST_DEVICE uint32_t NumSumParts(const UpdateWork& work, uint32_t chunk) {
  if constexpr (!ops::kHasRowState<Op>) return 1;
  const WorkChunk place = work.chunks[chunk];
  const UpdateEntry& entry = work.entries[place.entry];
  const uint64_t rows = entry.num_elements / entry.row_elements;
  const uint64_t most = RowsOfChunk(entry.row_elements);
  const uint64_t left = rows - place.index * most;
  return static_cast<uint32_t>(left < most ? left : most);
}

template <typename Op>
HOST_DEVICE SumPart SumPartOf(const UpdateEntry& entry, uint32_t index,
                              uint32_t part) {
  if constexpr (ops::kHasRowState<Op>) {
    const uint64_t row = index * RowsOfChunk(entry.row_elements) + part;
    return {row * entry.row_elements, (row + 1) * entry.row_elements};
  }
  const uint64_t begin = uint64_t(index) * kChunkElements;
  const uint64_t end = begin + kChunkElements;
  return {begin, end < entry.num_elements ? end : entry.num_elements};
}

// What element `at` adds to the sums.
template <typename Op, typename T, int num_sums>
HOST_DEVICE void TermsOf(const Op& op, const UpdateWork& work,
                         const UpdateEntry& entry, uint64_t at,
                         double (&terms)[num_sums]) {
  const PackRange range = {at, 1};
  T g[kPackElements<T>] = {};
  T w[kPackElements<T>] = {};
  LoadInputs(work, entry, range, g, w);
  if constexpr (ops::kHasRowState<Op>) {
    terms[0] = op.RowTerm(w[0], g[0]);
  } else {
    T states[Op::kNumStates];
    for (int k = 0; k < Op::kNumStates; ++k) {
      states[k] = static_cast<const T*>(entry.states[k])[at];
    }
    op.Terms(work.phase, w[0], g[0], states, terms);
  }
}

// What lane `lane` has of a part.
template <typename Op, typename T>
HOST_DEVICE void AddToLane(const UpdateWork& work, uint32_t chunk,
                           uint32_t part, uint32_t lane,
                           double (&sums)[kSumsOfPart<Op>]) {
  const WorkChunk place = work.chunks[chunk];
  const UpdateEntry& entry = work.entries[place.entry];
  Op op = *reinterpret_cast<const Op*>(work.functors + entry.functor_offset);
  ops::TakeSums(work.scratch + entry.first_sum, work.phase, op);
  const SumPart range = SumPartOf<Op>(entry, place.index, part);
  for (uint64_t at = range.begin + lane; at < range.end; at += ops::kSumLanes) {
    double terms[kSumsOfPart<Op>];
    TermsOf<Op, T>(op, work, entry, at, terms);
    for (int k = 0; k < kSumsOfPart<Op>; ++k) sums[k] += terms[k];
  }
}

// Takes the sums of a part: as those of the chunk, or for the state of its row.
template <typename Op, typename T>
HOST_DEVICE void EndPart(const UpdateWork& work, uint32_t chunk, uint32_t part,
                         const double (&sums)[kSumsOfPart<Op>]) {
  const WorkChunk place = work.chunks[chunk];
  const UpdateEntry& entry = work.entries[place.entry];
  if constexpr (ops::kHasRowState<Op>) {
    const Op& op =
        *reinterpret_cast<const Op*>(work.functors + entry.functor_offset);
    const uint64_t row = place.index * RowsOfChunk(entry.row_elements) + part;
    T& state = static_cast<T*>(entry.states[Op::kRowState])[row];
    state = op.UpdateRow(sums[0], entry.row_elements, state);
  } else {
    double* const out = work.scratch + entry.first_sum +
                        ops::SumsOf<Op>().size() +
                        uint64_t(place.index) * kSumsOfPart<Op>;
    for (int k = 0; k < kSumsOfPart<Op>; ++k) out[k] = sums[k];
  }
}

// What lane `lane` has of the sums of a tensor's chunks.
template <typename Op>
HOST_DEVICE void AddChunksToLane(const UpdateWork& work, uint32_t chunk,
                                 uint32_t lane,
                                 double (&sums)[kSumsOfPart<Op>]) {
  const UpdateEntry& entry = work.entries[work.chunks[chunk].entry];
  const double* const in =
      work.scratch + entry.first_sum + ops::SumsOf<Op>().size();
  const uint64_t num_chunks =
      (entry.num_elements + kChunkElements - 1) / kChunkElements;
  for (uint64_t i = lane; i < num_chunks; i += ops::kSumLanes) {
    for (int k = 0; k < kSumsOfPart<Op>; ++k) {
      sums[k] += in[i * kSumsOfPart<Op> + k];
    }
  }
}

// Takes the sums of a tensor.
template <typename Op>
HOST_DEVICE void EndChunks(const UpdateWork& work, uint32_t chunk,
                           const double (&sums)[kSumsOfPart<Op>]) {
  const UpdateEntry& entry = work.entries[work.chunks[chunk].entry];
  double* const out =
      work.scratch + entry.first_sum + work.phase * kSumsOfPart<Op>;
  for (int k = 0; k < kSumsOfPart<Op>; ++k) out[k] = sums[k];
}

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_UPDATE_ELEMENTS_H_
