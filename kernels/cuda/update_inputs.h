// Loads the inputs of the functors of rules from memory to the registers of one
// thread: for host and device.

#ifndef TENSORKV_KERNELS_CUDA_UPDATE_INPUTS_H_
#define TENSORKV_KERNELS_CUDA_UPDATE_INPUTS_H_

#include <stdint.h>

#include <type_traits>

#include "kernels/cuda/element_packs.h"
#include "kernels/cuda/update_work.h"
#include "kernels/ops/arithmetic.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/key_sums.h"
#include "kernels/ops/middle_mean.h"
#include "kernels/ops/unpack.h"
#include "kernels/ops/weighted_mean.h"

namespace tensorkv {

// Sets out[index] to `element`, where `index` is known only when the kernel
// runs. A compiler that does not know it has the whole array in memory, and all
// loads of packs wait for that.
template <typename T, int size>
HOST_DEVICE void SetElement(T (&out)[size], int index, T element) {
  for (int i = 0; i < size; ++i) out[i] = i == index ? element : out[i];
}

// Unpacks elements from element `first` of what the payload decodes to, as many
// as `range` has; elements past the range's end are zero.
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

// Adds 1 to places[i] if contribution `other` comes before own[i] in the order
// of middle_mean.h. `is_earlier` says whether its index is the lower one.
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

// Computes the mean that kernels/ops/middle_mean.h describes. Loads every
// contribution again for every other, so that it needs no memory.
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

// Computes the mean that kernels/ops/weighted_mean.h describes.
template <bool is_unsigned, typename T, int size>
HOST_DEVICE void WeighContributions(const UpdateWork& work,
                                    const UpdateEntry& entry, PackRange range,
                                    T (&mean)[size]) {
  const double* const weights = work.weights + (entry.weights - 1);
  ops::Wide<T> sums[size];
  for (ops::Wide<T>& sum : sums) sum = ops::kNoSum<ops::Wide<T>>;
  for (uint32_t k = 0; k < entry.num_contributions; ++k) {
    T next[size];
    LoadContribution(work, entry,
                     work.contributions[entry.first_contribution + k], range,
                     next);
    const auto weight = static_cast<ops::Wide<T>>(weights[1 + k]);
    for (int i = 0; i < size; ++i) {
      sums[i] = ops::AddWeighted<is_unsigned>(sums[i], weight, next[i]);
    }
  }
  // Dividing by 1 changes nothing.
  const auto total = static_cast<ops::Wide<T>>(weights[0]);
  for (int i = 0; i < size; ++i) {
    mean[i] = ops::RoundMean<is_unsigned, T>(sums[i] / total);
  }
}

// Computes the mean that the entry asks for. Of integers there is only the
// weighted one.
template <typename T, int size>
HOST_DEVICE void LoadMean(const UpdateWork& work, const UpdateEntry& entry,
                          PackRange range, T (&mean)[size]) {
  if constexpr (std::is_floating_point_v<T>) {
    if (entry.weights == 0) {
      return AverageContributions(work, entry, range, mean);
    }
  } else if (entry.is_unsigned) {
    return WeighContributions<true>(work, entry, range, mean);
  }
  WeighContributions<false>(work, entry, range, mean);
}

// Computes the sum of the contributions, in their order.
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

// Load and store arrays of T: states, and master copies.
template <typename T, int size>
HOST_DEVICE void LoadState(const void* state, PackRange range, T (&out)[size]) {
  LoadPack<NativeElement<T>>(state, range, out);
}
template <typename T, int size>
HOST_DEVICE void StoreNative(const T (&in)[size], PackRange range, void* out) {
  StorePack<NativeElement<T>>(in, range, out);
}

// Loads what the functor gets for its state `k`: the states of the range's
// elements, or for each element OfRow or OfColumn of the state of its row or
// column.
template <typename Op, typename T, int size>
HOST_DEVICE void LoadStateOf(const Op& op, const UpdateEntry& entry, int k,
                             PackRange range, T (&out)[size]) {
  if (ops::IsOfElements<Op>(k)) return LoadState(entry.states[k], range, out);
  if constexpr (ops::kHasRowState<Op>) {
    const T* const state = static_cast<const T*>(entry.states[k]);
    const uint64_t columns = entry.row_elements;
    for (int i = 0; i < size; ++i) {
      const uint64_t at = range.first + i;
      out[i] = T();
      if (uint64_t(i) >= range.count) continue;
      out[i] = k == Op::kRowState ? ops::OfRow(op, state[at / columns])
                                  : ops::OfColumn(op, state[at % columns]);
    }
  }
}

// Loads all states of the functor, as LoadStateOf does.
template <typename Op, typename T, int places, int size>
HOST_DEVICE void LoadStates(const Op& op, const UpdateEntry& entry,
                            PackRange range, T (&states)[places][size]) {
  for (int k = 0; k < Op::kNumStates; ++k) {
    LoadStateOf(op, entry, k, range, states[k]);
  }
}

// Load the inputs of a functor: the sum of the contributions or, if `averages`,
// for each element their weighted mean, or the mean of the num_averaged in the
// middle of them, a median or trimmed mean (middle_mean.h); and the present
// value, which stays as it is if the entry has none.
template <bool averages, typename T, int size>
HOST_DEVICE void LoadContributions(const UpdateWork& work,
                                   const UpdateEntry& entry, PackRange range,
                                   T (&g)[size]) {
  if constexpr (averages) {
    LoadMean(work, entry, range, g);
  } else {
    SumContributions(work, entry, range, g);
  }
}
template <typename T, int size>
HOST_DEVICE void LoadValue(const UpdateEntry& entry, PackRange range,
                           T (&w)[size]) {
  if (entry.current.data != nullptr) Load(entry.current, range, w);
}

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_UPDATE_INPUTS_H_
