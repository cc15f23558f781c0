#include "service/store/keyspace/updates/update_pass.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/counted_buffer.h"
#include "service/store/keyspace/push/staged_tensors.h"
#include "service/store/keyspace/rounds/weighted_sum.h"
#include "service/store/keyspace/updates/row_batches.h"
#include "service/store/names.h"
#include "xxhash.h"

namespace tensorkv {
namespace {

MutableTensorView View(const StoredKey& key, DType dtype, Buffer& buffer) {
  return {dtype, key.num_elements(), buffer.mutable_data()};
}

// Appends the state tensors of the item's rule.
void AppendStates(const UpdatePass::Item& item,
                  std::vector<MutableTensorView>& views) {
  if (item.rule_state == nullptr) return;
  const DType dtype = StateSpec::DTypeFor(item.key->dtype());
  for (const RefPtr<Buffer>& state : item.rule_state->states) {
    views.push_back({dtype,
                     static_cast<int64_t>(state->size_bytes() / SizeOf(dtype)),
                     state->mutable_data()});
  }
}

// Returns how much the updates before the item's weigh together.
double WeightBefore(const UpdatePass::Item& item) {
  return item.total_weight != 0 ? item.total_weight : item.update_count - 1.0;
}

// Returns a seed that is the same on every server and after every start.
uint64_t SeedOf(absl::string_view name) {
  return XXH3_64bits(name.data(), name.size());
}

}  // namespace

void UpdatePass::Reserve(size_t num_updates) {
  items_.reserve(num_updates);
  slots_.reserve(num_updates);
  results_.reserve(num_updates);
}

void UpdatePass::AddPending(StoredKey* key) { Add(key, key->TakePending()); }

void UpdatePass::Add(StoredKey* key, PendingUpdate update) {
  Begin(key, update.call);
  Item& item = items_.back();
  item.revision = update.revision;
  item.round = update.round;
  item.num_averaged = update.num_averaged;
  const bool has_reservation = update.value_reservation.bytes() > 0;
  item.access = std::move(update.access);
  for (Slot& slot : update.slots) AddSlot(std::move(slot));
  for (const uint32_t result : update.results) AddResult(result);
  AddReservations(std::move(update.tensor_reservation),
                  std::move(update.overhead),
                  std::move(update.value_reservation));
  End(has_reservation);
}

void UpdatePass::ReserveForCopy(Item& item) {
  const RefPtr<Buffer>& value = item.key->value;
  if (value->size_bytes() == 0) return;  // it may have no account
  item.is_retained = item.key->value_is_kept;
  absl::StatusOr<Reservation> reservation = Reservation::Create(
      item.is_retained ? memory_.device().retained
                       : RefPtr<BudgetAccount>(
                             static_cast<BudgetAccount*>(value->account())),
      value->size_bytes());
  if (reservation.ok()) {
    return (item.is_retained ? retained_reservation_ : value_reservation_)
        .Merge(*std::move(reservation));
  }
  // Nothing is allocated, nor written.
  item.is_in_place = true;
  --num_targets_;
  item.status = reservation.status();
}

void UpdatePass::AddReservations(Reservation tensor_reservation,
                                 Reservation overhead,
                                 Reservation value_reservation) {
  tensor_reservation_.Merge(std::move(tensor_reservation));
  overhead_.Merge(std::move(overhead));
  value_reservation_.Merge(std::move(value_reservation));
}

void UpdatePass::Begin(StoredKey* key, const RefPtr<QueuedCall>& call) {
  if (rules_.empty() || rules_.back() != key->rule) rules_.push_back(key->rule);
  if (call && (calls_.empty() || calls_.back() != call)) calls_.push_back(call);
  Item& item = items_.emplace_back();
  item.key = RefPtr<StoredKey>(key);
  item.rule = key->rule.get();
  item.call = call.get();
  item.revision = key->revision;
  item.multipliers = key->multipliers;
  item.first_slot = static_cast<uint32_t>(slots_.size());
  item.first_result = static_cast<uint32_t>(results_.size());
}

void UpdatePass::End(bool has_reservation) {
  Item& item = items_.back();
  StoredKey& key = *item.key;
  item.num_slots = static_cast<uint32_t>(slots_.size()) - item.first_slot;
  item.num_results = static_cast<uint32_t>(results_.size()) - item.first_result;
  item.update_count = item.access ? key.update_count : key.CountUpdate();
  if (!item.access || item.access->uses_states()) TakeStates(item);
  item.stored = View(key, key.dtype(), *key.value);
  key.is_updating = true;
  if (item.access) {
    item.is_in_place = true;  // there is no new value
    item.access->Begin(key);
    ++num_accesses_;
    work_bytes_ += kUpdateBytes + item.access->size_bytes();
    return;
  }
  item.is_of_rows = HasRows(SlotsOf(item));
  has_rows_ |= item.is_of_rows;
  TakeWeights(item);
  item.adopts = has_reservation && CanAdopt(item);
  item.is_in_place = !item.adopts && key.is_writable();
  num_targets_ += !item.is_in_place;
  num_adopted_ += item.adopts;
  if (!item.adopts) work_bytes_ += WorkBytesOf(item);
  key.value_is_changing = item.is_in_place;
  if (!item.is_in_place && !has_reservation) ReserveForCopy(item);
}

void UpdatePass::TakeStates(Item& item) {
  item.rule_state = item.key->rule_state;
  if (item.rule_state == nullptr) return;
  RuleState& state = *item.rule_state;
  num_states_ += state.states.size();
  item.must_fill_states = std::exchange(state.states_are_new, false);
  item.must_fill_master = std::exchange(state.master_is_new, false);
  if (item.must_fill_states) {
    for (const auto& each : state.states) work_bytes_ += each->size_bytes();
  }
  if (item.must_fill_master) {
    work_bytes_ += item.key->value_bytes() + state.master->size_bytes();
  }
}

void UpdatePass::TakeWeights(Item& item) {
  const absl::Span<const Slot> slots = SlotsOf(item);
  item.is_weighted = HasWeights(slots);
  if (item.rule->kind() == RuleKind::kAverage) {
    double& total_weight = item.rule_state->total_weight;
    item.weight = MeanWeight(slots);
    item.total_weight = total_weight;
    item.is_weighted |= total_weight != 0;
    if (item.is_weighted) total_weight = WeightBefore(item) + item.weight;
  }
  num_weighted_ += item.is_weighted;
}

uint64_t UpdatePass::WorkBytesOf(const Item& item) const {
  if (item.is_of_rows && item.is_in_place && !UpdatesAllRows(SlotsOf(item))) {
    return WorkBytesOfRows(item);
  }
  uint64_t bytes = kUpdateBytes + item.stored.size_bytes();
  if (item.rule_state != nullptr) bytes += item.rule_state->size_bytes();
  uint64_t slot_bytes = 0;
  for (uint32_t i = 0; i < item.num_slots; ++i) {
    slot_bytes +=
        item.stored.num_elements * SizeOf(slots_[item.first_slot + i].dtype);
  }
  // For a mean, each is compared with each.
  if (item.num_averaged > 0) slot_bytes *= item.num_slots;
  bytes += slot_bytes;
  return bytes * item.rule->work_factor();
}

uint64_t UpdatePass::WorkBytesOfRows(const Item& item) const {
  const uint64_t value_bytes = item.stored.size_bytes();
  const uint64_t state_bytes =
      item.rule_state == nullptr ? 0 : item.rule_state->size_bytes();
  const int64_t num_rows = std::max<int64_t>(item.key->num_rows(), 1);
  const uint64_t bytes_per_row =
      kUpdateBytes + (2 * value_bytes + state_bytes) / num_rows;
  uint64_t bytes = 0;
  for (const Slot& slot : SlotsOf(item)) {
    bytes += slot.rows->size() * bytes_per_row;
  }
  return bytes * item.rule->work_factor();
}

bool UpdatePass::CanAdopt(const Item& item) const {
  const Slot& slot = slots_[item.first_slot];
  return item.rule->kind() == RuleKind::kAssign && item.num_slots == 1 &&
         !item.is_weighted && slot.dtype == item.key->dtype() &&
         !slot.encoding && !slot.rows &&
         CanBecomeValue(*memory_.device().contributions, slot.buffer.get(),
                        item.stored.size_bytes());
}

// The memory that was reserved for a new value is the buffer's now.
void UpdatePass::Adopt(Item& item) {
  item.target = std::move(slots_[item.first_slot].buffer);
  const size_t bytes = item.target->size_bytes();
  const RefPtr<MemoryAccount> before =
      item.target->ExchangeAccount(value_reservation_.Split(bytes).HandOver());
  before->Release(static_cast<int64_t>(bytes));
}

void UpdatePass::Run() {
  RunUpdates();
  if (num_accesses_ > 0) RunAccesses();
}

void UpdatePass::RunUpdates() {
  if (!uploads_.copies.empty()) {
    status_ = tensorkv::Start(device_, std::exchange(uploads_, {}));
  }
  if (status_.ok()) status_ = Prepare();
  if (!status_.ok()) return simple_.EndWithoutRun(status_);
  if (!simple_.updates().empty()) {
    simple_.Run(device_);
    // Either all take effect or none does, as far as that can be.
    status_ = simple_.status();
    if (!status_.ok()) return;
  }
  RunBatch();
  if (has_rows_) RunRows();
}

void UpdatePass::Start(absl::AnyInvocable<void() &&> done) {
  status_ = Prepare();
  if (!status_.ok()) return std::move(done)();
  device_
      .Submit(TakePlan(),
              [this, done = std::move(done)](absl::Status ended) mutable {
                status_ = std::move(ended);
                // The pass may go with this call.
                std::exchange(done, nullptr)();
              })
      .IgnoreError();  // the callback is told
}

// Without any steps it is for values that were adopted: they may be on their
// way to the device.
Plan UpdatePass::TakePlan() {
  return {.uploads = std::move(uploads_.copies),
          .zeros = batch_.zeros,
          .updates = batch_.updates};
}

void UpdatePass::RunBatch() {
  Plan plan = TakePlan();
  if (plan.empty() && (num_adopted_ == 0 || device_.is_host())) return;
  status_ = device_.Run(std::move(plan));
}

void UpdatePass::RunRows() {
  for (Item& item : items_) {
    if (item.is_of_rows && StatusOf(item).ok()) item.status = UpdateRows(item);
  }
}

absl::Status UpdatePass::UpdateRows(const Item& item) const {
  if (item.rule->takes_sums()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "rows came before the rule changed to ", item.rule->spec().name,
        ", which takes norms of all elements"));
  }
  std::vector<MutableTensorView> states;
  AppendStates(item, states);
  RowBatches::Options options = {
      .whole = UpdateOf(item),
      .num_rows = item.key->num_rows(),
      .slots = SlotsOf(item),
      .update_all_rows = UpdatesAllRows(SlotsOf(item))};
  options.whole.states = states;
  // The value was copied to where the new one goes.
  if (!options.update_all_rows) options.whole.stored = options.whole.value;
  RefPtr<Buffer> zeros;
  if (NeedsZeros(SlotsOf(item))) {
    ASSIGN_OR_RETURN(zeros, ZerosFor(item));
    options.zeros = zeros->data();
  }
  RowBatches batches(options);
  return ApplyAll(device_, batches);
}

absl::StatusOr<RefPtr<Buffer>> UpdatePass::Allocate(uint64_t bytes) const {
  return AllocateCounted(memory_.device().contributions, bytes, device_);
}

// They are counted as a contribution, in whose place they are.
absl::StatusOr<RefPtr<Buffer>> UpdatePass::ZerosFor(const Item& item) const {
  const StoredKey& key = *item.key;
  MutableTensorView zeros = {
      AccumulateType(key.dtype()),
      std::min(key.num_elements(),
               RowBatches::NumZeros(key.num_elements_of_row()))};
  ASSIGN_OR_RETURN(RefPtr<Buffer> buffer, Allocate(zeros.size_bytes()));
  zeros.data = buffer->mutable_data();
  RETURN_IF_ERROR(device_.Zero({&zeros, 1}));
  return buffer;
}

absl::Status UpdatePass::Prepare() {
  RETURN_IF_ERROR(AllocateTargets());
  FillStates();
  RETURN_IF_ERROR(FillMasters());
  if (num_weighted_ > 0) PrepareWeighted();
  MakeBatch();
  return absl::OkStatus();
}

absl::Status UpdatePass::AllocateTargets() {
  if (num_targets_ == 0) return absl::OkStatus();
  for (Item& item : items_) {
    if (item.is_in_place) continue;
    if (item.adopts) {
      Adopt(item);
      continue;
    }
    Reservation& reserved =
        item.is_retained ? retained_reservation_ : value_reservation_;
    ASSIGN_OR_RETURN(
        item.target,
        AllocateReserved(reserved.Split(item.stored.size_bytes()), device_));
  }
  return absl::OkStatus();
}

void UpdatePass::FillStates() {
  if (num_states_ == 0) return;
  for (const Item& item : items_) {
    if (item.must_fill_states) AppendStates(item, batch_.zeros);
  }
}

absl::Status UpdatePass::FillMasters() {
  std::vector<TensorUpdate> conversions;
  std::vector<TensorView> stored;
  for (const Item& item : items_) {
    if (!item.must_fill_master) continue;
    stored.reserve(items_.size());  // the conversions refer to its elements
    stored.push_back(item.stored);
    TensorUpdate& conversion = conversions.emplace_back();
    conversion.rule = &UpdateRule::Assign();
    conversion.value = View(*item.key, DType::kF32, *item.rule_state->master);
    conversion.contributions = absl::MakeConstSpan(&stored.back(), 1);
  }
  return conversions.empty() ? absl::OkStatus() : device_.Apply(conversions);
}

void UpdatePass::PrepareWeighted() {
  WeightedSums sums;
  std::vector<std::pair<Item*, Slot>> summed;
  for (Item& item : items_) {
    if (!item.is_weighted || !item.status.ok()) continue;
    absl::StatusOr<Slot> sum = PrepareWeighted(item, sums);
    item.status = sum.status();
    if (sum.ok() && sum->buffer) summed.emplace_back(&item, *std::move(sum));
  }
  const absl::Status status = sums.Run(device_);
  for (auto& [item, sum] : summed) {
    item->status = status;
    slots_[item->first_slot] = std::move(sum);
    item->num_slots = 1;
  }
}

// A single contribution needs no multiplication: its weight is in the rule.
absl::StatusOr<Slot> UpdatePass::PrepareWeighted(Item& item,
                                                 WeightedSums& sums) const {
  const absl::Span<const Slot> slots = SlotsOf(item);
  if (item.rule->kind() != RuleKind::kAverage) {
    return absl::FailedPreconditionError(absl::StrCat(
        "key ", Quoted(item.key->name()),
        ": contributions with weights came before the rule changed to ",
        item.rule->spec().name));
  }
  RETURN_IF_ERROR(CheckWeightsHaveNoRows(item.key->name(), slots));
  const bool is_simple = slots.size() == 1 && HasFactors(slots);
  ASSIGN_OR_RETURN(UpdateRule rule,
                   WeightedAverage(*item.rule,
                                   {.weight = item.weight,
                                    .weight_before = WeightBefore(item)},
                                   is_simple ? 1 : item.weight));
  item.weighted_average = std::make_unique<UpdateRule>(std::move(rule));
  return !is_simple && HasFactors(slots) ? AddSum(item, sums) : Slot();
}

absl::StatusOr<Slot> UpdatePass::AddSum(const Item& item,
                                        WeightedSums& sums) const {
  MutableTensorView view = {AccumulateType(item.key->dtype()),
                            item.stored.num_elements};
  Slot sum;
  ASSIGN_OR_RETURN(sum.buffer, Allocate(view.size_bytes()));
  sum.dtype = view.dtype;
  sum.data = sum.buffer->data();
  view.data = sum.buffer->mutable_data();
  sums.Add(SlotsOf(item), view);
  return sum;
}

void UpdatePass::RunAccesses() {
  RunCopies();
  for (const Item& item : items_) {
    if (IsIndependent(item)) item.access->Run(device_);
  }
}

void UpdatePass::RunCopies() {
  Plan plan;
  std::vector<KeyAccess*> copying;
  for (const Item& item : items_) {
    if (!IsIndependent(item)) continue;
    const size_t num_before = plan.uploads.size() + plan.downloads.size();
    item.access->AddCopies(plan.uploads, plan.downloads);
    if (plan.uploads.size() + plan.downloads.size() > num_before) {
      copying.push_back(item.access.get());
    }
  }
  if (copying.empty()) return;
  const absl::Status status = device_.Run(std::move(plan));
  for (KeyAccess* const access : copying) access->Fail(status);
}

void UpdatePass::MakeBatch() {
  batch_.updates.reserve(items_.size());
  // The updates refer to the elements.
  batch_.slots.reserve(slots_.size());
  batch_.packings.reserve(slots_.size());
  batch_.states.reserve(num_states_);
  for (const Item& item : items_) {
    if (item.adopts || item.access) continue;
    if (!item.status.ok()) continue;  // there is no room for its value
    if (item.is_of_rows) {
      AddCopy(item);
      continue;
    }
    TensorUpdate& update = batch_.updates.emplace_back(UpdateOf(item));
    const size_t first_slot = batch_.slots.size();
    bool has_packed = false;
    for (uint32_t i = 0; i < item.num_slots; ++i) {
      const Slot& slot = slots_[item.first_slot + i];
      batch_.slots.push_back({slot.dtype, item.stored.num_elements, slot.data});
      batch_.packings.push_back(slot.packing());
      has_packed |= slot.encoding.get() != nullptr;
    }
    update.contributions =
        absl::MakeConstSpan(batch_.slots).subspan(first_slot);
    if (has_packed) {
      update.packings =
          absl::MakeConstSpan(batch_.packings).subspan(first_slot);
    }
    const size_t first_state = batch_.states.size();
    AppendStates(item, batch_.states);
    update.states = absl::MakeConstSpan(batch_.states).subspan(first_state);
  }
}

// Rows are updated in a copy of the value where somebody reads that.
void UpdatePass::AddCopy(const Item& item) {
  if (item.is_in_place || UpdatesAllRows(SlotsOf(item))) return;
  batch_.slots.push_back(item.stored);
  batch_.packings.push_back(nullptr);
  TensorUpdate& copy = batch_.updates.emplace_back();
  copy.rule = &UpdateRule::Assign();
  copy.contributions = absl::MakeConstSpan(&batch_.slots.back(), 1);
  copy.value = item.stored;
  copy.value.data = item.target->mutable_data();
}

TensorUpdate UpdatePass::UpdateOf(const Item& item) {
  TensorUpdate update;
  update.rule = item.rule;
  update.update_count = item.update_count;
  if (item.weighted_average) {
    update.rule = item.weighted_average.get();
    update.update_count = 1;
  }
  update.num_averaged = item.num_averaged;
  if (item.multipliers) update.multipliers = *item.multipliers;
  if (item.rule->takes_seed()) update.seed = SeedOf(item.key->name());
  if (item.key->shape().rank() > 0) {
    update.num_rows = item.key->shape().dimensions()[0];
  }
  update.stored = item.stored;
  update.value = item.stored;
  if (!item.is_in_place) update.value.data = item.target->mutable_data();
  if (item.rule_state != nullptr && item.rule_state->master) {
    update.master = View(*item.key, DType::kF32, *item.rule_state->master);
  }
  return update;
}

// The rule may have changed meanwhile; what its new state took over from the
// old one must still be filled.
void UpdatePass::Undo(const Item& item) {
  StoredKey& key = *item.key;
  // Not if the count has begun anew, under another rule.
  const bool counts = key.counts_running_update;
  key.EndCount(/*is_applied=*/false);
  if (item.rule_state == nullptr || key.rule_state == nullptr) return;
  if (counts) key.rule_state->total_weight = item.total_weight;
  const RuleState& old = *item.rule_state;
  RuleState& present = *key.rule_state;
  if (present.states == old.states) {
    present.states_are_new |= item.must_fill_states;
  }
  if (present.master == old.master) {
    present.master_is_new |= item.must_fill_master;
  }
}

void UpdatePass::Complete(Item& item, const absl::Status& status,
                          Version restored_versions) {
  StoredKey& key = *item.key;
  key.is_updating = false;
  key.value_is_changing = false;
  if (item.access) item.access->End(key, status, *item.rule);
  if (!status.ok()) return Undo(item);
  if (item.access) return;
  if (!item.is_in_place) std::swap(key.value, item.target);
  key.EndCount(/*is_applied=*/true);
  key.version = key.NextVersion(restored_versions);
}

}  // namespace tensorkv
