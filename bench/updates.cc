#include "bench/updates.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/types/span.h"
#include "base/status_macros.h"

namespace tensorkv::bench {
namespace {

constexpr double kElement = 0.5;

// Bounds what is copied over and over into large tensors.
constexpr int64_t kMaxRunElements = 256 << 10;

void AppendCopies(const Tensor& run, const MutableTensorView& tensor,
                  std::vector<MemoryCopy>* copies) {
  const size_t size_bytes = tensor.size_bytes();
  const size_t run_bytes = run.size_bytes();
  char* const to = static_cast<char*>(tensor.data);
  for (size_t at = 0; at < size_bytes; at += run_bytes) {
    copies->push_back(
        {run.data(), to + at, std::min(run_bytes, size_bytes - at)});
  }
}

int64_t NumElementsOf(const StateSpec& state, const KeyUpdateShape& shape) {
  switch (state.shape) {
    case StateShape::kPerRow:
      return shape.num_rows;
    case StateShape::kPerColumn:
      return shape.num_elements / shape.num_rows;
    default:
      return shape.num_elements;
  }
}

absl::Status Fill(Backend& backend,
                  absl::Span<const MutableTensorView> tensors) {
  std::map<DType, Tensor> runs;
  std::vector<MemoryCopy> copies;
  for (const MutableTensorView& tensor : tensors) {
    const auto [run, is_new] = runs.try_emplace(tensor.dtype);
    if (is_new) {
      const int64_t size = std::min(tensor.num_elements, kMaxRunElements);
      ASSIGN_OR_RETURN(run->second,
                       Tensor::Filled(tensor.dtype, {size}, kElement));
    }
    AppendCopies(run->second, tensor, &copies);
  }
  return backend.CopyToDevice(copies);
}

}  // namespace

absl::StatusOr<KeyUpdate> KeyUpdate::Create(Backend& backend,
                                            const UpdateRule* rule,
                                            const KeyUpdateShape& shape) {
  KeyUpdate update(rule);
  update.num_rows_ = shape.num_rows;
  const auto allocate = [&](DType dtype) {
    return update.Allocate(backend, dtype, shape.num_elements);
  };
  ASSIGN_OR_RETURN(update.value_, allocate(shape.dtype));
  for (int i = 0; i < shape.num_contributions; ++i) {
    ASSIGN_OR_RETURN(const MutableTensorView tensor, allocate(shape.dtype));
    update.contributions_.push_back(tensor);
  }
  for (const StateSpec& state : rule->states()) {
    ASSIGN_OR_RETURN(const MutableTensorView tensor,
                     update.Allocate(backend, AccumulateType(shape.dtype),
                                     NumElementsOf(state, shape)));
    update.states_.push_back(tensor);
  }
  if (rule->keeps_master(shape.dtype)) {
    ASSIGN_OR_RETURN(update.master_, allocate(DType::kF32));
  }
  RETURN_IF_ERROR(Fill(backend, update.tensors_));
  return update;
}

absl::StatusOr<MutableTensorView> KeyUpdate::Allocate(Backend& backend,
                                                      DType dtype,
                                                      int64_t num_elements) {
  ASSIGN_OR_RETURN(
      RefPtr<Buffer> buffer,
      backend.Allocate(num_elements * SizeOf(dtype), /*account=*/nullptr));
  tensors_.push_back({dtype, num_elements, buffer->mutable_data()});
  buffers_.push_back(std::move(buffer));
  return tensors_.back();
}

TensorUpdate KeyUpdate::view() const {
  return {.rule = rule_,
          .stored = value_,
          .contributions = contributions_,
          .states = states_,
          .num_rows = num_rows_,
          .master = master_,
          .value = value_};
}

int64_t BytesMoved(const TensorUpdate& update) {
  const bool reads_master = update.rule->keeps_master(update.value.dtype);
  const bool reads_stored =
      !reads_master && update.rule->kind() != RuleKind::kAssign;
  size_t bytes = update.value.size_bytes();
  if (reads_stored) bytes += update.stored.size_bytes();
  if (reads_master) bytes += 2 * update.master.size_bytes();
  for (const TensorView& contribution : update.contributions) {
    bytes += contribution.size_bytes();
  }
  for (const MutableTensorView& state : update.states) {
    bytes += 2 * state.size_bytes();
  }
  return static_cast<int64_t>(bytes);
}

absl::StatusOr<std::shared_ptr<Updates>> Updates::Create(
    Backend* backend, const RuleSpec& rule, const KeyUpdateShape& shape,
    int64_t num_updates) {
  ASSIGN_OR_RETURN(UpdateRule checked, UpdateRule::Create(rule));
  auto updates = std::make_shared<Updates>(
      Updates{.backend = backend, .rule = std::move(checked)});
  for (int64_t i = 0; i < num_updates; ++i) {
    ASSIGN_OR_RETURN(KeyUpdate key,
                     KeyUpdate::Create(*backend, &updates->rule, shape));
    updates->keys.push_back(std::move(key));
  }
  for (const KeyUpdate& key : updates->keys) {
    updates->batch.push_back(key.view());
    updates->bytes_moved += BytesMoved(updates->batch.back());
  }
  return updates;
}

absl::StatusOr<Load> UpdateLoad(Backend* backend, const RuleSpec& rule,
                                const KeyUpdateShape& shape,
                                int64_t num_updates, bool in_one_batch) {
  ASSIGN_OR_RETURN(const auto updates,
                   Updates::Create(backend, rule, shape, num_updates));
  const auto apply = [=]() -> absl::Status {
    if (in_one_batch) return backend->Apply(updates->batch);
    for (const TensorUpdate& update : updates->batch) {
      RETURN_IF_ERROR(backend->Apply(absl::MakeConstSpan(&update, 1)));
    }
    return absl::OkStatus();
  };
  return Load{
      .call = apply, .bytes = updates->bytes_moved, .keys = num_updates};
}

}  // namespace tensorkv::bench
