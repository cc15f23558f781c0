// The table of work that one launch of the update kernels reads.
//
// Plain structs, copied to the device byte by byte. No Abseil and no CUDA:
// host and device sources both include this.

#ifndef TENSORKV_KERNELS_CUDA_UPDATE_WORK_H_
#define TENSORKV_KERNELS_CUDA_UPDATE_WORK_H_

#include <stdint.h>

#include <type_traits>

#include "kernels/ops/key_sums.h"
#include "kernels/rule_table.h"
#include "tensor/packing.h"

namespace tensorkv {

// The numbers of DType (tensor/dtype.h), as WrappingType has it.
enum class ElementType : uint8_t {
  kF32 = 1,
  kF64 = 2,
  kF16 = 3,
  kBF16 = 4,
  kF8E4M3FN = 5,
  kF8E5M2 = 6,
  kI8 = 7,
  kU8 = 8,
  kI16 = 9,
  kI32 = 10,
  kI64 = 11,
  kBool = 12,
};

// Elements of one tensor, in device memory, aligned to one element at least.
struct SourceArray {
  const void* data;
  ElementType type;
  // What the data are packed by: one above its place in UpdateWork::packings,
  // or 0 for plain elements.
  uint32_t packing;
  // Where in what is packed the update's elements begin.
  uint64_t packed_first;
};

// One tensor's update. The accumulate type T is that of the launch.
struct UpdateEntry {
  uint64_t num_elements;
  // Where in the key they begin.
  uint64_t first_element;
  // What the rule reads as the present value. Null: it reads none.
  SourceArray current;
  // Where the new value goes, rounded.
  void* value;
  // T each. Null where there is none.
  void* master;
  void* states[kMaxRuleStates];
  // In UpdateWork::contributions.
  uint32_t first_contribution;
  uint32_t num_contributions;
  // In UpdateWork::functors.
  uint32_t functor_offset;
  // As in TensorUpdate.
  uint32_t num_averaged;
  ElementType value_type;
  // What a row has; set only where the functor has a state per row or column.
  uint64_t row_elements;
  // In UpdateWork::scratch, only where the functor needs sums: those of all
  // phases, and behind them those of the parts of columns that have several,
  // and afterwards those of the chunks in the present phase.
  uint64_t first_sum;
};

// Elements that a thread block updates at a time: a multiple of what its
// threads take in one step, and large enough that the table stays small: 8
// bytes for 64 KiB of f32. Launches of few chunks have a block for each part of
// them.
inline constexpr uint32_t kChunkElements = 16 * 1024;
inline constexpr uint32_t kMaxParts = 16;
static_assert(kChunkElements == ops::kSumPartElements);

// Rows of `row_elements` that one thread block takes at a time.
HOST_DEVICE uint64_t RowsOfChunk(uint64_t row_elements) {
  return row_elements < kChunkElements ? kChunkElements / row_elements : 1;
}

// Part `index` of a tensor: kChunkElements from index * kChunkElements on. In a
// launch for rows, RowsOfChunk rows likewise; in one for columns, kSumLanes of
// them, or of their parts, those of the first rows first; in one that combines
// sums, all of the tensor.
struct WorkChunk {
  uint32_t entry;
  uint32_t index;
};

// What one launch does. All pointers are to what the device can reach; those to
// the table are offsets in it where it travels with the launch.
struct UpdateWork {
  const UpdateEntry* entries;
  const SourceArray* contributions;
  const Packing* packings;
  // Functors of the launch's type, each aligned to 8 bytes.
  const unsigned char* functors;
  const WorkChunk* chunks;
  uint32_t num_chunks;
  // Equal parts that each chunk is in, a power of two up to kMaxParts; 1 but in
  // launches that update elements.
  uint32_t num_parts;
  // The phase of a launch that makes sums.
  int32_t phase;
  // Whether the table is in UpdateParameters.
  bool has_table_beside;
  // What launches leave for those that follow.
  double* scratch;

  // What there is for blocks to do.
  HOST_DEVICE uint32_t num_tasks() const { return num_chunks * num_parts; }
};

// What a kernel is given: the work, and perhaps its table. A table of some
// dozens of small updates travels so with its launch, and no transfer comes
// before it.
template <uint32_t size_bytes>
struct ParametersOf {
  static constexpr uint32_t kMaxTable =
      (size_bytes - sizeof(UpdateWork)) / 16 * 16;

  UpdateWork work;
  alignas(16) unsigned char table[kMaxTable];
};

// Any runtime takes 4 KiB of parameters; since CUDA 12.1 one takes 32,764
// bytes, all of which every launch copies.
using UpdateParameters = ParametersOf<4096>;
inline constexpr uint32_t kMaxTableBeside = UpdateParameters::kMaxTable;

// The work with pointers in place of offsets.
template <typename Parameters>
HOST_DEVICE UpdateWork WorkOf(const Parameters& parameters) {
  UpdateWork work = parameters.work;
  if (!work.has_table_beside) return work;
  const uint64_t table = reinterpret_cast<uint64_t>(parameters.table);
  const auto move = [table](auto*& pointer) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(
        reinterpret_cast<uint64_t>(pointer) + table);
  };
  move(work.entries);
  move(work.contributions);
  move(work.packings);
  move(work.functors);
  move(work.chunks);
  return work;
}

// What a launch does. What kernels/ops/key_sums.h says of sums is so here too.
enum class LaunchStep : uint8_t {
  // Updates elements.
  kUpdate,
  // Updates elements of entries that average: a kernel of its own, since what
  // that takes in registers would cost the usual one a third of its threads.
  kUpdateAveraged,
  // Updates the states of rows.
  kRows,
  // Makes the sums of the parts of columns that have several.
  kColumnParts,
  // Updates the states of columns.
  kColumns,
  // Makes the sums of chunks, in one phase.
  kSum,
  // Makes the sum of a tensor from those of its chunks.
  kCombine,
};

// One launch: the functor of `rule` over `accumulate_type`, for all chunks.
struct UpdateLaunch {
  RuleKind rule;
  ElementType accumulate_type;
  LaunchStep step;
  UpdateWork work;
  // Host memory with the table, of at most kMaxTableBeside bytes, if that
  // travels with the launch.
  const char* table = nullptr;
  uint32_t table_bytes = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_UPDATE_WORK_H_
