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
  // One more than the index in UpdateWork::packings of the data's packing, or 0
  // for unpacked elements.
  uint32_t packing;
  // The index of the update's first element in what the data unpack to.
  uint64_t packed_first;
};

// One tensor's update. The accumulate type T is that of the launch.
struct UpdateEntry {
  uint64_t num_elements;
  // The index in the key of the first element.
  uint64_t first_element;
  // The array that the rule reads as the present value; its data are null if
  // the rule reads none.
  SourceArray current;
  // Where the new value goes, rounded.
  void* value;
  // Arrays of T. Null where there is none.
  void* master;
  void* states[kMaxRuleStates];
  // Indices in UpdateWork::contributions.
  uint32_t first_contribution;
  uint32_t num_contributions;
  // In bytes, in UpdateWork::functors.
  uint32_t functor_offset;
  // As in TensorUpdate.
  uint32_t num_averaged;
  ElementType value_type;
  // Whether integers are unsigned ones, as `value_type` does not say.
  bool is_unsigned;
  // One more than the index in UpdateWork::weights of the total weight, which
  // the contributions' weights follow; 0: they have none.
  uint32_t weights;
  // The elements of a row; set only where the functor has a state per row or
  // column.
  uint64_t row_elements;
  // Where the functor needs sums, the index in UpdateWork::scratch of the
  // entry's doubles: the sums of all phases; behind them those of the parts of
  // columns that have several parts, and later, in their place, those of the
  // chunks in the present phase.
  uint64_t first_sum;
};

// Elements that a thread block updates at a time: a multiple of what its
// threads take in one step, and large enough that the table stays small: 8
// bytes for 64 KiB of f32. Launches of few chunks have a block for each part of
// them.
inline constexpr uint32_t kChunkElements = 16 * 1024;
inline constexpr uint32_t kMaxParts = 16;
static_assert(kChunkElements == ops::kSumPartElements);

// Returns how many rows of `row_elements` one thread block does at a time.
HOST_DEVICE uint64_t RowsOfChunk(uint64_t row_elements) {
  return row_elements < kChunkElements ? kChunkElements / row_elements : 1;
}

// Chunk `index` of an entry's tensor. It is, in a launch that updates or sums
// elements, kChunkElements from element index * kChunkElements on; for rows,
// RowsOfChunk rows from row index * RowsOfChunk on; for columns or their parts,
// kSumLanes of them from index * kSumLanes on, where the parts of the first
// rows are the first; in a launch that combines sums, the whole tensor.
struct WorkChunk {
  uint32_t entry;
  uint32_t index;
};

// The work of one launch. All pointers are to memory that the device can reach.
// Those to the table are offsets in it where it travels with the launch
// (WorkOf).
struct UpdateWork {
  const UpdateEntry* entries;
  const SourceArray* contributions;
  const Packing* packings;
  const double* weights;
  // Functors of the launch's type, each aligned to 8 bytes.
  const unsigned char* functors;
  const WorkChunk* chunks;
  uint32_t num_chunks;
  // The equal parts into which each chunk is divided, a power of two up to
  // kMaxParts; 1 except in launches that update elements.
  uint32_t num_parts;
  // The phase of a launch that makes sums.
  int32_t phase;
  // Whether the table is in UpdateParameters.
  bool has_table_beside;
  // Sums that launches store for those that follow.
  double* scratch;

  // Returns the number of parts of chunks, each of which one block does.
  HOST_DEVICE uint32_t num_tasks() const { return num_chunks * num_parts; }
};

// The parameters of a kernel: the work, and perhaps its table. A table of some
// dozens of small updates travels with its launch in this way, and no transfer
// comes before it.
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

// Returns the work of `parameters` with pointers to the table in place of
// offsets, if it has a table.
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
  move(work.weights);
  move(work.functors);
  move(work.chunks);
  return work;
}

// The step of an update that a launch does. Sums are as kernels/ops/key_sums.h
// says.
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
