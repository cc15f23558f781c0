#include "service/store/keyspace/updates/row_batches.h"

#include <algorithm>

#include "base/status_macros.h"

namespace tensorkv {
namespace {

// Bound a batch, so that what it takes besides its tensors stays below some
// MiB, however many rows there are.
constexpr size_t kMaxUpdates = 4096;
constexpr size_t kMaxViews = 4 * kMaxUpdates;

absl::Status PrepareAll(Backend& device, RowBatches& batches) {
  for (auto batch = batches.Next(); !batch.empty(); batch = batches.Next()) {
    RETURN_IF_ERROR(device.ReserveForUpdates(batch));
  }
  batches.Rewind();
  return absl::OkStatus();
}

TensorView Part(const TensorView& tensor, int64_t first, int64_t count) {
  if (tensor.data == nullptr) return {tensor.dtype, count, nullptr};
  return {tensor.dtype, count,
          static_cast<const char*>(tensor.data) + first * SizeOf(tensor.dtype)};
}

MutableTensorView Part(const MutableTensorView& tensor, int64_t first,
                       int64_t count) {
  if (tensor.data == nullptr) return {tensor.dtype, count, nullptr};
  return {tensor.dtype, count,
          static_cast<char*>(tensor.data) + first * SizeOf(tensor.dtype)};
}

}  // namespace

bool HasRows(absl::Span<const Slot> slots) {
  return std::any_of(slots.begin(), slots.end(),
                     [](const Slot& slot) { return bool{slot.rows}; });
}

bool UpdatesAllRows(absl::Span<const Slot> slots) {
  return std::any_of(slots.begin(), slots.end(), [](const Slot& slot) {
    return !slot.rows || slot.update_all_rows;
  });
}

bool NeedsZeros(absl::Span<const Slot> slots) {
  return UpdatesAllRows(slots) &&
         std::all_of(slots.begin(), slots.end(),
                     [](const Slot& slot) { return bool{slot.rows}; });
}

RowBatches::RowBatches(const Options& options)
    : options_(options),
      accumulate_type_(AccumulateType(options.whole.value.dtype)) {
  if (options_.num_rows > 0) {
    row_elements_ = options_.whole.stored.num_elements / options_.num_rows;
  }
  size_t num_named = 0;
  for (const Slot& slot : options_.slots) {
    if (slot.rows) num_named += slot.rows->size();
    has_dense_ |= !slot.rows;
    has_packed_ |= slot.packing() != nullptr;
  }
  named_.reserve(num_named);
  for (uint32_t i = 0; i < options_.slots.size(); ++i) {
    if (!options_.slots[i].rows) continue;
    const RowIds& ids = *options_.slots[i].rows;
    for (int64_t k = 0; k < ids.size(); ++k) named_.push_back({ids[k], k, i});
  }
  std::stable_sort(
      named_.begin(), named_.end(),
      [](const Named& a, const Named& b) { return a.row < b.row; });
}

std::vector<int64_t> RowBatches::NamedRows() const {
  std::vector<int64_t> rows;
  for (const Named& named : named_) {
    if (rows.empty() || rows.back() != named.row) rows.push_back(named.row);
  }
  return rows;
}

void RowBatches::Rewind() {
  next_named_ = 0;
  next_row_ = 0;
  next_place_ = 0;
}

bool RowBatches::IsFull() const {
  return updates_.size() >= kMaxUpdates || views_.size() >= kMaxViews;
}

absl::Span<const TensorUpdate> RowBatches::Next() {
  updates_.clear();
  first_views_.clear();
  views_.clear();
  packings_.clear();
  packed_firsts_.clear();
  factors_.clear();
  weights_.clear();
  states_.clear();
  if (row_elements_ == 0) return {};
  while (!IsFull()) {
    const bool has_named = next_named_ < named_.size();
    const int64_t end_row =
        has_named ? named_[next_named_].row : options_.num_rows;
    if (options_.update_all_rows && next_row_ < end_row) {
      AddUnnamed(end_row);
    } else if (has_named) {
      AddNamed();
    } else {
      break;
    }
  }
  Connect();
  return updates_;
}

size_t RowBatches::EndOfRow(size_t first) const {
  size_t end = first;
  while (end < named_.size() && named_[end].row == named_[first].row) ++end;
  return end;
}

bool RowBatches::Continues(size_t first, size_t end, size_t next,
                           int64_t distance) const {
  if (next >= named_.size() || EndOfRow(next) - next != end - first) {
    return false;
  }
  for (size_t i = 0; i < end - first; ++i) {
    const Named& before = named_[first + i];
    const Named& after = named_[next + i];
    if (after.row != before.row + distance || after.slot != before.slot ||
        after.position != before.position + distance) {
      return false;
    }
  }
  return true;
}

void RowBatches::AddNamed() {
  const size_t first = next_named_;
  const size_t end = EndOfRow(first);
  int64_t num_rows = 1;
  next_named_ = end;
  while (Continues(first, end, next_named_, num_rows)) {
    next_named_ += end - first;
    ++num_rows;
  }
  const int64_t first_row = named_[first].row;
  const size_t first_view = views_.size();
  uint32_t next_slot = 0;
  for (size_t i = first; i < end; ++i) {
    const Named& named = named_[i];
    AddDense(next_slot, named.slot, first_row, num_rows);
    next_slot = named.slot + 1;
    const Slot& slot = options_.slots[named.slot];
    AddPart(slot, slot.rows->size() * row_elements_,
            named.position * row_elements_, num_rows * row_elements_);
  }
  AddDense(next_slot, options_.slots.size(), first_row, num_rows);
  AddUpdate(first_row, num_rows, first_view);
}

void RowBatches::AddUnnamed(int64_t end_row) {
  int64_t num_rows = end_row - next_row_;
  const size_t first_view = views_.size();
  if (has_dense_) {
    AddDense(0, options_.slots.size(), next_row_, num_rows);
  } else {
    num_rows = std::min(num_rows, NumZeros(row_elements_) / row_elements_);
    AddView({accumulate_type_, num_rows * row_elements_, options_.zeros},
            nullptr, 0, /*factor=*/1);
  }
  AddUpdate(next_row_, num_rows, first_view);
}

void RowBatches::AddDense(uint32_t slot, uint32_t end, int64_t first_row,
                          int64_t num_rows) {
  for (; slot < end; ++slot) {
    const Slot& dense = options_.slots[slot];
    if (dense.rows) continue;
    AddPart(dense, options_.whole.stored.num_elements,
            first_row * row_elements_, num_rows * row_elements_);
  }
}

// A payload has no parts: it is the data of each.
void RowBatches::AddPart(const Slot& slot, int64_t num_elements, int64_t first,
                         int64_t count) {
  const TensorView all = {slot.dtype, num_elements, slot.data};
  const Packing* const packing = slot.packing();
  AddView(Part(all, packing == nullptr ? first : 0, count), packing, first,
          slot.factor());
}

void RowBatches::AddView(const TensorView& view, const Packing* packing,
                         uint64_t packed_first, double factor) {
  views_.push_back(view);
  if (options_.total_weight) factors_.push_back(factor);
  if (!has_packed_) return;
  packings_.push_back(packing);
  packed_firsts_.push_back(packed_first);
}

void RowBatches::AddUpdate(int64_t first_row, int64_t num_rows,
                           size_t first_view) {
  const TensorUpdate& whole = options_.whole;
  const int64_t first = first_row * row_elements_;
  const int64_t count = num_rows * row_elements_;
  TensorUpdate& update = updates_.emplace_back(whole);
  update.first_element = first;
  update.num_rows = num_rows;
  update.stored = Part(whole.stored, first, count);
  update.value =
      Part(whole.value, options_.is_compact ? next_place_ : first, count);
  update.master = Part(whole.master, first, count);
  AddStates(first_row, num_rows);
  first_views_.push_back(first_view);
  next_row_ = first_row + num_rows;
  next_place_ += count;
}

void RowBatches::AddStates(int64_t first_row, int64_t num_rows) {
  const TensorUpdate& whole = options_.whole;
  for (size_t i = 0; i < whole.states.size(); ++i) {
    const bool is_per_row =
        whole.rule->states()[i].shape == StateShape::kPerRow;
    const int64_t size = is_per_row ? 1 : row_elements_;
    states_.push_back(Part(whole.states[i], first_row * size, num_rows * size));
  }
}

// The arrays have stopped growing.
void RowBatches::Connect() {
  first_views_.push_back(views_.size());
  const size_t num_states = options_.whole.states.size();
  for (size_t i = 0; i < updates_.size(); ++i) {
    const size_t first = first_views_[i];
    const size_t count = first_views_[i + 1] - first;
    updates_[i].contributions =
        absl::MakeConstSpan(views_).subspan(first, count);
    if (has_packed_) {
      updates_[i].packings =
          absl::MakeConstSpan(packings_).subspan(first, count);
      updates_[i].packed_firsts =
          absl::MakeConstSpan(packed_firsts_).subspan(first, count);
    }
    updates_[i].states =
        absl::MakeConstSpan(states_).subspan(i * num_states, num_states);
  }
  if (options_.total_weight) ConnectWeights();
}

void RowBatches::ConnectWeights() {
  weights_.reserve(updates_.size());
  for (size_t i = 0; i < updates_.size(); ++i) {
    const size_t count = updates_[i].contributions.size();
    weights_.push_back(
        {absl::MakeConstSpan(factors_).subspan(first_views_[i], count),
         *options_.total_weight});
    updates_[i].weights = &weights_.back();
  }
}

absl::Status ApplyAll(Backend& device, RowBatches& batches) {
  // None may lack memory when others have run. On the host, none takes any.
  if (!device.is_host()) RETURN_IF_ERROR(PrepareAll(device, batches));
  for (auto batch = batches.Next(); !batch.empty(); batch = batches.Next()) {
    RETURN_IF_ERROR(device.Apply(batch));
  }
  return absl::OkStatus();
}

absl::Status CopyRows(Backend& device, const TensorView& stored,
                      int64_t num_rows, absl::Span<const RowsToCopy> copies) {
  std::vector<TensorView> sources;
  std::vector<TensorUpdate> updates;
  sources.reserve(kMaxUpdates);  // the updates refer to its elements
  const auto run = [&]() -> absl::Status {
    if (!updates.empty()) RETURN_IF_ERROR(device.Apply(updates));
    sources.clear();
    updates.clear();
    return absl::OkStatus();
  };
  for (const auto& [row_ids, rows] : copies) {
    if (rows.num_elements == 0) continue;
    const RowIds& ids = *row_ids;
    const int64_t row_elements = stored.num_elements / num_rows;
    for (int64_t i = 0; i < ids.size();) {
      const int64_t first = i++;
      while (i < ids.size() && ids[i] == ids[first] + (i - first)) ++i;
      const int64_t num_elements = (i - first) * row_elements;
      sources.push_back(Part(stored, ids[first] * row_elements, num_elements));
      TensorUpdate& update = updates.emplace_back();
      update.rule = &UpdateRule::Assign();
      update.contributions = absl::MakeConstSpan(&sources.back(), 1);
      update.value = Part(rows, first * row_elements, num_elements);
      if (updates.size() == kMaxUpdates) RETURN_IF_ERROR(run());
    }
  }
  return run();
}

}  // namespace tensorkv
