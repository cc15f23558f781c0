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
#include "kernels/ops/unpack.h"

namespace tensorkv {

// Threads of a block. A tensor of 4 KiB of f32 takes one step of them all.
inline constexpr uint32_t kThreadsPerBlock = 128;

// `first` is that of the range in what is packed. Elements past the range's end
// are zero.
template <typename T, int size>
HOST_DEVICE void Unpack(const Packing& packing, const void* payload,
                        uint64_t first, PackRange range, T (&out)[size]) {
  for (int i = 0; i < size; ++i) {
    out[i] = uint64_t(i) < range.count
                 ? ops::UnpackElement<T>(packing, payload, first + i)
                 : T();
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
                    entry.first_element + range.first, range, out);
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

// new_w = op(w, g, states), and the states after it in memory.
template <typename Op, typename T, int size>
HOST_DEVICE void Step(const Op& op, const UpdateEntry& entry, PackRange range,
                      const T (&g)[size], T (&w)[size]) {
  constexpr int kPlaces = ops::kStatePlaces<Op>;
  T states[kPlaces][size];
  for (int k = 0; k < Op::kNumStates; ++k) {
    LoadState(entry.states[k], range, states[k]);
  }
  for (int i = 0; i < size; ++i) {
    T element[kPlaces];
    for (int k = 0; k < Op::kNumStates; ++k) element[k] = states[k][i];
    w[i] = ops::UpdateElement(op, w[i], g[i], element,
                              entry.first_element + range.first + i);
    for (int k = 0; k < Op::kNumStates; ++k) states[k][i] = element[k];
  }
  for (int k = 0; k < Op::kNumStates; ++k) {
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

template <typename Op, typename T>
HOST_DEVICE void UpdatePack(const Op& op, const UpdateWork& work,
                            const UpdateEntry& entry, PackRange range) {
  T g[kPackElements<T>] = {};
  SumContributions(work, entry, range, g);
  T w[kPackElements<T>] = {};
  if (entry.current.data != nullptr) Load(entry.current, range, w);
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
  using Type = const Op;
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
  const uint64_t begin = uint64_t(place.index) * kChunkElements;
  const uint64_t left = entry.num_elements - begin;
  const uint64_t count = left < kChunkElements ? left : kChunkElements;
  for (uint64_t at = thread * kPack; at < count;
       at += kThreadsPerBlock * kPack) {
    UpdatePack<Op, T>(op, work, entry, {begin + at, count - at});
  }
}

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_UPDATE_ELEMENTS_H_
