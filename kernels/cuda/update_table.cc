#include "kernels/cuda/update_table.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/status_macros.h"
#include "kernels/cuda/accumulate_types.h"
#include "kernels/rule_ops.h"
#include "tensor/dtype.h"

namespace tensorkv {
namespace {

constexpr ElementType TypeOf(DType dtype) {
  return static_cast<ElementType>(WrappingType(dtype));
}
static_assert(TypeOf(DType::kF32) == ElementType::kF32);
static_assert(TypeOf(DType::kF64) == ElementType::kF64);
static_assert(TypeOf(DType::kF16) == ElementType::kF16);
static_assert(TypeOf(DType::kBF16) == ElementType::kBF16);
static_assert(TypeOf(DType::kF8E4M3FN) == ElementType::kF8E4M3FN);
static_assert(TypeOf(DType::kF8E5M2) == ElementType::kF8E5M2);
static_assert(TypeOf(DType::kI8) == ElementType::kI8);
static_assert(TypeOf(DType::kU8) == ElementType::kU8);
static_assert(TypeOf(DType::kI16) == ElementType::kI16);
static_assert(TypeOf(DType::kI32) == ElementType::kI32);
static_assert(TypeOf(DType::kI64) == ElementType::kI64);
static_assert(TypeOf(DType::kBool) == ElementType::kBool);

SourceArray SourceOf(const TensorView& tensor) {
  return {tensor.data, TypeOf(tensor.dtype), /*packing=*/0,
          /*packed_first=*/0};
}

size_t MaxFunctorBytesOf(const UpdateRule& rule) {
  return rule.expression() == nullptr ? UpdateTable::kMaxFunctorBytes
                                      : sizeof(ops::Expression<double>);
}

template <typename Op>
size_t FunctorBytes(const Op& op) {
  static_assert(sizeof(Op) <= UpdateTable::kMaxFunctorBytes);
  return sizeof(op);
}
template <typename T>
size_t FunctorBytes(const ops::Expression<T>& program) {
  return program.size_bytes();
}

// Returns whether the update is about bits alone: what assign does with one
// contribution in the value's dtype keeps them, also those of a NaN; what it
// does without any sets all to zero.
bool IsOfBits(const TensorUpdate& update) {
  if (update.rule->kind() != RuleKind::kAssign) return false;
  if (update.weights != nullptr) return false;
  return update.contributions.empty() ||
         (update.contributions.size() == 1 && update.PackingOf(0) == nullptr &&
          update.contributions[0].dtype == update.value.dtype);
}

// So many thread blocks keep the largest of GPUs busy: four for each of its
// multiprocessors.
constexpr size_t kWantedBlocks = 512;

uint64_t NumChunks(const TensorUpdate& update) {
  return (update.value.num_elements + kChunkElements - 1) / kChunkElements;
}

// Returns the elements of a row, where there are any.
uint64_t RowElements(const TensorUpdate& update) {
  return update.value.num_elements / update.num_rows;
}

uint64_t NumRowChunks(const TensorUpdate& update) {
  const uint64_t rows = RowsOfChunk(RowElements(update));
  return (update.num_rows + rows - 1) / rows;
}

uint64_t NumColumnChunks(const TensorUpdate& update) {
  return (RowElements(update) + ops::kSumLanes - 1) / ops::kSumLanes;
}

// Returns the parts of all columns; none where each would have one.
uint64_t NumColumnParts(const TensorUpdate& update) {
  const uint64_t columns = RowElements(update);
  const uint64_t num_parts = ops::NumColumnParts(update.num_rows, columns);
  return num_parts > 1 ? num_parts * columns : 0;
}

uint64_t NumColumnPartChunks(const TensorUpdate& update) {
  return (NumColumnParts(update) + ops::kSumLanes - 1) / ops::kSumLanes;
}

// Doubles that the sums of an update take, those of its chunks, and before them
// those of its columns' parts, included.
uint64_t NumScratch(const TensorUpdate& update) {
  const ops::SumsOfOp sums = SumsOfRule(update.rule->kind());
  return sums.size() +
         std::max(NumChunks(update) * sums.num_sums,
                  sums.has_column_state ? NumColumnParts(update) : 0);
}

// Returns what sums add to the sizes.
UpdateTable::Sizes MaxSizesOfSums(const TensorUpdate& update) {
  const ops::SumsOfOp sums = SumsOfRule(update.rule->kind());
  if (!sums.any() || update.value.num_elements == 0) return {};
  uint64_t num_chunks = 0;
  if (sums.has_row_state) num_chunks += NumRowChunks(update);
  if (sums.has_column_state) {
    num_chunks += NumColumnPartChunks(update) + NumColumnChunks(update);
  }
  if (sums.num_phases > 0) num_chunks += 1;
  return {num_chunks * sizeof(WorkChunk), NumScratch(update) * sizeof(double)};
}

// Returns an integer type of the size of the dtype.
ElementType BitsTypeOf(DType dtype) {
  switch (SizeOf(dtype)) {
    case 1:
      return ElementType::kU8;
    case 2:
      return ElementType::kI16;
    case 4:
      return ElementType::kI32;
    default:
      return ElementType::kI64;
  }
}

// Returns whether a mean has to be made: that of one contribution whose bits
// are kept is that contribution.
bool Averages(const TensorUpdate& update) {
  return update.has_mean() && !IsOfBits(update);
}

ElementType LaunchTypeOf(const TensorUpdate& update) {
  return IsOfBits(update) ? BitsTypeOf(update.value.dtype)
                          : TypeOf(AccumulateType(update.value.dtype));
}

// Returns what the rule reads as the present value.
SourceArray CurrentOf(const TensorUpdate& update) {
  if (update.rule->kind() == RuleKind::kAssign) return {};
  const bool has_master = update.rule->keeps_master(update.value.dtype);
  return SourceOf(has_master ? update.master : update.stored);
}

// Returns how many the table has: those of the contributions and their total.
size_t NumWeights(const TensorUpdate& update) {
  return update.weights == nullptr ? 0 : 1 + update.weights->each.size();
}

// Adds the first chunks of an entry, so many.
void AddChunks(uint32_t entry, uint64_t count, std::vector<WorkChunk>& chunks) {
  for (uint32_t i = 0; i < count; ++i) chunks.push_back({entry, i});
}

template <typename T>
size_t BytesOf(const std::vector<T>& elements) {
  static_assert(std::is_trivially_copyable_v<T>);
  return elements.size() * sizeof(T);
}

template <typename T>
void Copy(const std::vector<T>& elements, char* to) {
  if (!elements.empty()) std::memcpy(to, elements.data(), BytesOf(elements));
}

}  // namespace

UpdateTable::Sizes UpdateTable::MaxSizesOf(
    absl::Span<const TensorUpdate> batch) {
  Sizes sizes;
  for (const TensorUpdate& update : batch) {
    const Sizes sums = MaxSizesOfSums(update);
    sizes.table_bytes += sizeof(UpdateEntry) + MaxFunctorBytesOf(*update.rule) +
                         update.contributions.size() * sizeof(SourceArray) +
                         update.packings.size() * sizeof(Packing) +
                         NumWeights(update) * sizeof(double) +
                         NumChunks(update) * sizeof(WorkChunk) +
                         sums.table_bytes;
    sizes.scratch_bytes += sums.scratch_bytes;
  }
  return sizes;
}

void UpdateTable::Add(absl::Span<const TensorUpdate> batch) {
  for (const TensorUpdate& update : batch) {
    if (update.value.num_elements == 0) continue;
    const ElementType type = LaunchTypeOf(update);
    AddChunks(static_cast<uint32_t>(entries_.size()), NumChunks(update),
              GroupOf(update, type).chunks[kElements]);
    AddEntry(update, type);
  }
}

void UpdateTable::AddEntry(const TensorUpdate& update,
                           ElementType accumulate_type) {
  UpdateEntry& entry = entries_.emplace_back();
  entry.num_elements = update.value.num_elements;
  entry.first_element = update.first_element;
  entry.current = CurrentOf(update);
  entry.value = update.value.data;
  entry.value_type = TypeOf(update.value.dtype);
  if (update.rule->keeps_master(update.value.dtype)) {
    entry.master = update.master.data;
  }
  for (size_t i = 0; i < update.states.size(); ++i) {
    entry.states[i] = update.states[i].data;
  }
  entry.first_contribution = static_cast<uint32_t>(contributions_.size());
  entry.num_contributions = static_cast<uint32_t>(update.contributions.size());
  entry.num_averaged = update.num_averaged;
  if (update.weights != nullptr) {
    const auto& [each, total] = *update.weights;
    entry.is_unsigned = IsUnsigned(update.value.dtype);
    weights_.push_back(total == 0 ? 1 : total);
    entry.weights = static_cast<uint32_t>(weights_.size());
    weights_.insert(weights_.end(), each.begin(), each.end());
  }
  for (size_t i = 0; i < update.contributions.size(); ++i) {
    SourceArray& source =
        contributions_.emplace_back(SourceOf(update.contributions[i]));
    if (const Packing* const packing = update.PackingOf(i)) {
      packings_.push_back(*packing);
      source.packing = static_cast<uint32_t>(packings_.size());
      source.packed_first = update.PackedFirstOf(i);
      const bool is_empty =
          packing->kind == PackingKind::kTopK && packing->count == 0;
      if (is_empty) source.data = nullptr;  // wherever its 0 bytes are
    }
  }
  entry.functor_offset = FunctorOf(update, accumulate_type);
  const ops::SumsOfOp sums = SumsOfRule(update.rule->kind());
  if (!sums.any()) return;
  AddSums(update, sums, GroupOf(update, accumulate_type), entry);
}

void UpdateTable::AddSums(const TensorUpdate& update, const ops::SumsOfOp& sums,
                          Group& group, UpdateEntry& entry) {
  const auto index = static_cast<uint32_t>(entries_.size() - 1);
  if (sums.has_row_state) {
    entry.row_elements = RowElements(update);
    AddChunks(index, NumRowChunks(update), group.chunks[kRows]);
  }
  if (sums.has_column_state) {
    AddChunks(index, NumColumnPartChunks(update), group.chunks[kColumnParts]);
    AddChunks(index, NumColumnChunks(update), group.chunks[kColumns]);
  }
  if (sums.num_phases > 0) AddChunks(index, 1, group.chunks[kTensors]);
  entry.first_sum = num_scratch_;
  num_scratch_ += NumScratch(update);
}

uint32_t UpdateTable::FunctorOf(const TensorUpdate& update,
                                ElementType accumulate_type) {
  LastFunctor& last = last_functor_;
  if (last.rule == update.rule && last.update_count == update.update_count &&
      last.multipliers == update.multipliers && last.seed == update.seed &&
      last.accumulate_type == accumulate_type) {
    return last.offset;
  }
  last = {update.rule,        update.update_count,
          update.multipliers, update.seed,
          accumulate_type,    static_cast<uint32_t>(BytesOf(functors_))};
  VisitAccumulateType(accumulate_type, [&](auto type) {
    using T = typename decltype(type)::T;
    VisitRuleOp<T>(update, [&](const auto& op) {
      constexpr size_t kWord = sizeof(uint64_t);
      static_assert(alignof(decltype(op)) <= kWord);
      const size_t size_bytes = FunctorBytes(op);
      functors_.resize(functors_.size() + (size_bytes + kWord - 1) / kWord);
      std::memcpy(reinterpret_cast<char*>(functors_.data()) + last.offset, &op,
                  size_bytes);
    });
  });
  return last.offset;
}

UpdateTable::Group& UpdateTable::GroupOf(const TensorUpdate& update,
                                         ElementType accumulate_type) {
  const RuleKind rule = update.rule->kind();
  const bool averages = Averages(update);
  for (Group& group : groups_) {
    if (group.rule == rule && group.accumulate_type == accumulate_type &&
        group.averages == averages) {
      return group;
    }
  }
  return groups_.emplace_back(Group{rule, accumulate_type, averages, {}});
}

// Every part is a multiple of 8 bytes, which is all that any needs.
UpdateTable::Layout UpdateTable::layout() const {
  static_assert(sizeof(UpdateEntry) % 8 == 0 && sizeof(SourceArray) % 8 == 0 &&
                sizeof(Packing) % 8 == 0 && sizeof(WorkChunk) % 8 == 0);
  Layout layout;
  layout.contributions = BytesOf(entries_);
  layout.packings = layout.contributions + BytesOf(contributions_);
  layout.weights = layout.packings + BytesOf(packings_);
  layout.functors = layout.weights + BytesOf(weights_);
  layout.chunks = layout.functors + BytesOf(functors_);
  layout.end = layout.chunks;
  for (const Group& group : groups_) {
    for (const auto& chunks : group.chunks) layout.end += BytesOf(chunks);
  }
  return layout;
}

size_t UpdateTable::size_bytes() const { return layout().end; }

uint32_t UpdateTable::NumParts(size_t num_chunks) const {
  if (options_.num_parts > 0) return options_.num_parts;
  uint32_t num_parts = 1;
  while (num_parts < kMaxParts && num_chunks * num_parts < kWantedBlocks) {
    num_parts *= 2;
  }
  return num_parts;
}

void UpdateTable::Write(char* host) const {
  const Layout place = layout();
  Copy(entries_, host);
  Copy(contributions_, host + place.contributions);
  Copy(packings_, host + place.packings);
  Copy(weights_, host + place.weights);
  Copy(functors_, host + place.functors);
  char* chunks = host + place.chunks;
  for (const Group& group : groups_) {
    for (const auto& of : group.chunks) {
      Copy(of, chunks);
      chunks += BytesOf(of);
    }
  }
}

absl::Status UpdateTable::CopyAndLaunch(Memory& memory, Stream& stream) const {
  const bool is_beside = fits_launches();
  const size_t table_bytes = size_bytes();
  if (!is_beside) {
    RETURN_IF_ERROR(
        stream.CopyToDevice(memory.device, memory.host, table_bytes));
  }
  // Beside a launch, offsets in the table are addresses in a block at 0.
  for (UpdateLaunch& launch :
       LaunchesAt(is_beside ? 0 : reinterpret_cast<uintptr_t>(memory.device),
                  memory.scratch)) {
    if (is_beside) {
      launch.work.has_table_beside = true;
      launch.table = memory.host;
      launch.table_bytes = static_cast<uint32_t>(table_bytes);
    }
    RETURN_IF_ERROR(stream.Launch(launch));
    ++memory.num_launches;
  }
  return absl::OkStatus();
}

std::vector<UpdateLaunch> UpdateTable::LaunchesAt(uintptr_t device,
                                                  char* scratch) const {
  const Layout place = layout();
  const UpdateWork work = {
      .entries = reinterpret_cast<const UpdateEntry*>(device),
      .contributions =
          reinterpret_cast<const SourceArray*>(device + place.contributions),
      .packings = reinterpret_cast<const Packing*>(device + place.packings),
      .weights = reinterpret_cast<const double*>(device + place.weights),
      .functors =
          reinterpret_cast<const unsigned char*>(device + place.functors),
      .scratch = reinterpret_cast<double*>(scratch)};
  std::vector<UpdateLaunch> launches;
  uintptr_t chunks = device + place.chunks;
  for (const Group& group : groups_) {
    AddLaunches(group, work, chunks, launches);
  }
  return launches;
}

void UpdateTable::AddLaunches(const Group& group, const UpdateWork& work,
                              uintptr_t& chunks,
                              std::vector<UpdateLaunch>& launches) const {
  const WorkChunk* at[kNumChunksOf];
  for (int of = 0; of < kNumChunksOf; ++of) {
    at[of] = reinterpret_cast<const WorkChunk*>(chunks);
    chunks += BytesOf(group.chunks[of]);
  }
  const auto launch = [&](LaunchStep step, ChunksOf of, int phase = 0) {
    if (group.chunks[of].empty()) return;
    UpdateLaunch& added = launches.emplace_back(
        UpdateLaunch{group.rule, group.accumulate_type, step, work});
    added.work.chunks = at[of];
    added.work.num_chunks = static_cast<uint32_t>(group.chunks[of].size());
    added.work.num_parts = 1;
    added.work.phase = phase;
  };
  launch(LaunchStep::kRows, kRows);
  launch(LaunchStep::kColumnParts, kColumnParts);
  launch(LaunchStep::kColumns, kColumns);
  const int num_phases = SumsOfRule(group.rule).num_phases;
  for (int phase = 0; phase < num_phases; ++phase) {
    launch(LaunchStep::kSum, kElements, phase);
    launch(LaunchStep::kCombine, kTensors, phase);
  }
  launch(group.averages ? LaunchStep::kUpdateAveraged : LaunchStep::kUpdate,
         kElements);
  launches.back().work.num_parts = NumParts(group.chunks[kElements].size());
}

}  // namespace tensorkv
