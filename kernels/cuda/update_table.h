// From batches of updates to the table of work that the kernels read.

#ifndef TENSORKV_KERNELS_CUDA_UPDATE_TABLE_H_
#define TENSORKV_KERNELS_CUDA_UPDATE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/update_work.h"

namespace tensorkv {

// Settings that only a GPU can judge: the defaults are predictions, beside
// which gpu_benchmark measures others.
struct UpdateTableOptions {
  // The parts into which each chunk is divided: a power of two up to kMaxParts.
  // 0: so many that a launch keeps the largest of GPUs busy.
  uint32_t num_parts = 0;
  // The largest block of bytes that travels with its launches.
  uint32_t max_table_beside = kMaxTableBeside;
};

// The work of any number of batches as one block of bytes and a few launches,
// however many tensors there are. Each rule and accumulate type has a launch
// that updates elements, another for updates that average, and more if it needs
// sums. Consecutive updates that share a rule, an update count, multipliers and
// seed share one functor in the block.
//
// Not thread-safe. Keeps the addresses of the batches' elements, and nothing
// else of the batches.
class UpdateTable {
 public:
  explicit UpdateTable(const UpdateTableOptions& options = {})
      : options_(options) {}

  // A bound on the size of a functor of any rule and type, programs aside.
  static constexpr size_t kMaxFunctorBytes = 192;

  // The values of size_bytes() and scratch_bytes().
  struct Sizes {
    size_t table_bytes = 0;
    size_t scratch_bytes = 0;
  };

  // Returns the most that Add(batch) adds to these values.
  static Sizes MaxSizesOf(absl::Span<const TensorUpdate> batch);

  // Adds a batch. Tensors without elements are left out. An assign without
  // contributions sets its value to zero.
  // REQUIRES: all other updates have been checked (update_check.h).
  void Add(absl::Span<const TensorUpdate> batch);

  // Returns whether there is nothing to launch.
  bool empty() const { return groups_.empty(); }

  // Returns the size of the block, at most 4 GiB.
  size_t size_bytes() const;

  // Writes the block, size_bytes() long, to `host`, 16-byte aligned.
  void Write(char* host) const;

  // Returns the bytes of uninitialised memory that launches need on the device
  // besides.
  size_t scratch_bytes() const { return num_scratch_ * sizeof(double); }

  // Returns whether the block may travel with its launches.
  bool fits_launches() const {
    return size_bytes() <= options_.max_table_beside;
  }

  // Returns the launches, in the order in which they run, over a copy of the
  // block at the address `device`, 16-byte aligned, with scratch_bytes, if that
  // is not 0, at `scratch`, 8-byte aligned.
  std::vector<UpdateLaunch> LaunchesAt(uintptr_t device,
                                       char* scratch = nullptr) const;

  // The memory of a block that CopyAndLaunch runs.
  struct Memory {
    // What Write has written.
    const char* host = nullptr;
    // Memory for the block on the device; not used if fits_launches().
    char* device = nullptr;
    // scratch_bytes() on the device.
    char* scratch = nullptr;
    // Set by CopyAndLaunch, also where it fails: the launches on the stream.
    int num_launches = 0;
  };
  // Puts on the stream a copy of the block to the device, unless it travels
  // with the launches, and the launches behind it. Errors: those of the stream.
  absl::Status CopyAndLaunch(Memory& memory, Stream& stream) const;

 private:
  // The kinds of chunks: elements; rows, parts of columns and columns, where
  // the functor has states per row or column; tensors whose sums are combined.
  enum ChunksOf { kElements, kRows, kColumnParts, kColumns, kTensors };
  static constexpr int kNumChunksOf = kTensors + 1;

  // The work of the launches of one functor.
  struct Group {
    RuleKind rule;
    ElementType accumulate_type;
    bool averages;
    std::vector<WorkChunk> chunks[kNumChunksOf];
  };

  // The offsets of the parts of the block, of which the entries are the first.
  struct Layout {
    size_t contributions;
    size_t packings;
    size_t weights;
    size_t functors;
    size_t chunks;
    size_t end;
  };

  // The update whose functor was added last, and the functor's offset.
  struct LastFunctor {
    const UpdateRule* rule = nullptr;
    uint64_t update_count = 0;
    Multipliers multipliers;
    uint64_t seed = 0;
    ElementType accumulate_type = ElementType::kF32;
    uint32_t offset = 0;
  };

  Layout layout() const;
  uint32_t NumParts(size_t num_chunks) const;
  void AddEntry(const TensorUpdate& update, ElementType accumulate_type);
  void AddSums(const TensorUpdate& update, const ops::SumsOfOp& sums,
               Group& group, UpdateEntry& entry);
  // Returns the offset of the update's functor, which it adds unless it is the
  // last one's.
  uint32_t FunctorOf(const TensorUpdate& update, ElementType accumulate_type);
  // Returns the group of the update's functor, which it adds if there is none.
  Group& GroupOf(const TensorUpdate& update, ElementType accumulate_type);
  void AddLaunches(const Group& group, const UpdateWork& work,
                   uintptr_t& chunks,
                   std::vector<UpdateLaunch>& launches) const;

  UpdateTableOptions options_;
  std::vector<UpdateEntry> entries_;
  std::vector<SourceArray> contributions_;
  std::vector<Packing> packings_;
  std::vector<double> weights_;
  std::vector<uint64_t> functors_;
  std::vector<Group> groups_;
  LastFunctor last_functor_;
  uint64_t num_scratch_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_UPDATE_TABLE_H_
