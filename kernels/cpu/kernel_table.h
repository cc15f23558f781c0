// The innermost loops of the CPU backend, compiled once per instruction set.
//
// Plain types and C headers only: see element_kernels.inc.

#ifndef TENSORKV_KERNELS_CPU_KERNEL_TABLE_H_
#define TENSORKV_KERNELS_CPU_KERNEL_TABLE_H_

#include <stddef.h>
#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/weighted_mean.h"
#include "kernels/rule_table.h"
#include "tensor/packing.h"

namespace tensorkv {

// The float dtypes, in the order of DType.
enum class FloatFormat { kF32, kF64, kF16, kBF16, kF8E4M3FN, kF8E5M2 };
inline constexpr int kNumFloatFormats = 6;

// The most arrays that are added in one pass. Several streams in flight hide
// more of the memory's latency than one after the other: 8-way sums ran 1.2
// times as fast with 4 as with 1.
inline constexpr size_t kMaxAddends = 4;

// Loops between stored elements of one format and elements of T. Elements are
// aligned to their own size, no more.
template <typename T>
struct FormatKernels {
  // out[i] = in[i]
  void (*load)(const void* in, T* out, size_t count);
  // sum[i] = sum[i] + in[0][i] + ... + in[num_in - 1][i], from the left, with
  // num_in from 1 to kMaxAddends.
  void (*add)(const void* const* in, size_t num_in, T* sum, size_t count);
  // out[i] = in[i], rounded. Null for formats that never differ from T's.
  void (*store)(const T* in, void* out, size_t count);
};

// Elements of one update that a functor steps over: `w` the values, `g` the
// sums of contributions, `first` the index in the key of the first element.
// `new_w` may be `w`. Only as many states are set as the functor has.
template <typename T>
struct StepArrays {
  T* new_w;
  const T* w;
  const T* g;
  T* states[kMaxRuleStates];
  uint64_t first;
};

// Loops over elements of the accumulate type T.
template <typename T>
struct ElementKernels {
  // By FloatFormat. Where T is no float, the first is for T itself, and there
  // are no others.
  FormatKernels<T> formats[kNumFloatFormats];
  // out[i] = element at + i of what `payload` decodes to. Null where T is no
  // float.
  void (*unpack)(const Packing& packing, const void* payload, uint64_t at,
                 size_t count, T* out);
  // out[i] = the mean of those in the middle of `num_in` arrays that lie one
  // after the other (kernels/ops/middle_mean.h). Null where T is no float.
  void (*average)(const T* in, uint32_t num_in, uint32_t num_averaged, T* out,
                  size_t count);
  // The steps of a weighted mean (kernels/ops/weighted_mean.h): sum[i] = sum[i]
  // + weight * in[i], and out[i] = sum[i] / total, which may be `sum`.
  // `is_unsigned` says what integers are.
  void (*add_weighted)(const T* in, double weight, bool is_unsigned,
                       ops::Wide<T>* sum, size_t count);
  void (*divide)(const ops::Wide<T>* sum, double total, bool is_unsigned,
                 T* out, size_t count);
  // By RuleKind, null where the rule does not take T: runs the functor `op` of
  // kernels/ops over `count` elements.
  void (*steps[kNumRuleKinds])(const void* op, const StepArrays<T>& arrays,
                               size_t count);
  // By RuleKind, null where the functor needs no sums (kernels/ops/key_sums.h):
  // adds the terms of `phase` to `lanes`, kSumLanes for each sum. The first
  // element belongs to lane 0. Ignores new_w. In kRowPhase `columns`, if not
  // null, has a sum for each element, to which the element's term is added too;
  // in other phases it is null.
  void (*sums[kNumRuleKinds])(const void* op, int phase,
                              const StepArrays<T>& arrays, size_t count,
                              double* lanes, double* columns);
};

// All loops for one instruction set. Every table gives the same bits.
struct KernelTable {
  const char* instruction_set;
  ElementKernels<float> f32;
  ElementKernels<double> f64;
  ElementKernels<int8_t> i8;
  ElementKernels<uint8_t> u8;
  ElementKernels<int16_t> i16;
  ElementKernels<int32_t> i32;
  ElementKernels<int64_t> i64;
  ElementKernels<ops::Bool> boolean;
};

// Returns the table for the compiler's baseline, which every CPU runs.
const KernelTable* PortableKernels();
// Returns the table for AVX2, FMA and F16C. Null where the compiler targets
// another architecture. Does not check the CPU.
const KernelTable* Avx2Kernels();
// Returns the table for AVX-512 F, BW, DQ and VL, AVX2, FMA and F16C. Null
// where the compiler targets another architecture. Does not check the CPU.
const KernelTable* Avx512Kernels();

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CPU_KERNEL_TABLE_H_
