// The work of one thread of an update kernel, for host and device: the kernel
// runs it on every thread, the tests' fake device in a loop.

#ifndef TENSORKV_KERNELS_CUDA_UPDATE_ELEMENTS_H_
#define TENSORKV_KERNELS_CUDA_UPDATE_ELEMENTS_H_

#include <stdint.h>

#include <type_traits>

#include "kernels/cuda/element_packs.h"
#include "kernels/cuda/update_inputs.h"
#include "kernels/cuda/update_work.h"
#include "kernels/expression/bytecode.h"
#include "kernels/expression/run_pack.h"
#include "kernels/ops/element.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/key_sums.h"

namespace tensorkv {

// Threads of a block. A tensor of 4 KiB of f32 takes one step of them all.
inline constexpr uint32_t kThreadsPerBlock = 128;

// Replaces `w` by the functor's new values, and stores the new states of the
// elements in memory, but not `w`.
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
    if (!ops::IsOfElements<Op>(k)) continue;
    StoreNative(states[k], range, entry.states[k]);
  }
}

// Replaces `w` by the values that the program computes, and loads and stores
// its states in memory.
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

// How a thread goes through the elements of a chunk. gpu_benchmark measures
// other shapes beside this one.
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

// Updates the elements of one pack: their states, master copy and value.
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

// Does the share of thread `thread` of a block in task `task`, a part of a
// chunk: every kThreadsPerBlock-th pack, so that neighbouring threads touch
// neighbouring memory.
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
  ops::SetSums(work.scratch + entry.first_sum, ops::SumsOf<Op>().num_phases,
               op);
  const uint64_t left = entry.num_elements - begin;
  const uint64_t count = left < part_elements ? left : part_elements;
  for (uint64_t at = thread * kPack; at < count;
       at += kThreadsPerBlock * kPack) {
    UpdatePack<Shape, averages>(op, work, entry, {begin + at, count - at});
  }
}

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_UPDATE_ELEMENTS_H_
