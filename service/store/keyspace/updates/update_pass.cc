#include "service/store/keyspace/updates/update_pass.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/counted_buffer.h"
#include "service/store/keyspace/push/staged_tensors.h"
#include "service/store/keyspace/updates/row_batches.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Bounds a batch on the host: what the backend reads of so many updates takes a
// fifth of a second-level cache.
constexpr size_t kUpdatesOfBatch = 1024;

// Says how far ahead of an update the memory of others is fetched.
constexpr size_t kUpdatesAhead = 8;

// Returns whether the entry brings a tensor and nothing else, but for a weight,
// which changes nothing of its key's only entry.
bool IsTensor(const PushEntry& entry) {
  return !entry.skip && !entry.encoding && !entry.rows &&
         entry.tensor.has_data();
}

}  // namespace

void UpdatePass::Reserve(size_t num_updates) {
  items_.reserve(num_updates);
  tensors_.reserve(num_updates);
}

void UpdatePass::Add(StoredKey* key, PendingUpdate update) {
  AddItem(key, update.call, update.revision).round = update.round;
  if (update.num_averaged > 0 || update.total_weight) {
    Extras& extras = Extend(items_.back());
    extras.num_averaged = update.num_averaged;
    extras.total_weight = update.total_weight;
  }
  const bool has_reservation = update.value_reservation.bytes() > 0;
  for (Slot& slot : update.slots) AddSlot(std::move(slot));
  for (const uint32_t result : update.results) AddResult(result);
  AddReservations(std::move(update.tensor_reservation),
                  std::move(update.overhead),
                  std::move(update.value_reservation));
  if (update.access) return EndAccess(std::move(update.access));
  End(has_reservation);
}

UpdatePass::Extras& UpdatePass::Extend(Item& item) {
  if (item.extras == Item::kNone) {
    if (extras_.empty()) extras_.reserve(items_.capacity());
    item.extras = static_cast<uint32_t>(extras_.size());
    extras_.emplace_back().item = static_cast<uint32_t>(&item - items_.data());
  }
  return extras_[item.extras];
}

void UpdatePass::AddReservations(Reservation tensor_reservation,
                                 Reservation overhead,
                                 Reservation value_reservation) {
  tensor_reservation_.Merge(std::move(tensor_reservation));
  overhead_.Merge(std::move(overhead));
  value_reservation_.Merge(std::move(value_reservation));
}

UpdatePass::Item& UpdatePass::AddItem(StoredKey* key,
                                      const RefPtr<QueuedCall>& call,
                                      uint64_t revision) {
  const UpdateRule* const rule = key->rule.get();
  if (rules_.empty() || rules_.back().get() != rule) {
    rules_.push_back(key->rule);
    work_factor_ = rule->work_factor();
  }
  if (origins_.empty() || origins_.back().call != call ||
      origins_.back().revision != revision) {
    origins_.push_back({.call = call, .revision = revision});
  }
  ++origins_.back().num_items;
  key->is_updating = true;
  Item& item = items_.emplace_back();
  item.key = key;
  item.rule = rule;
  item.first_tensor = static_cast<uint32_t>(tensors_.size());
  if (rule->takes_seed()) Extend(item);
  return item;
}

void UpdatePass::Begin(StoredKey* key, const RefPtr<QueuedCall>& call) {
  AddItem(key, call, key->revision);
}

void UpdatePass::AddResult(uint32_t result) {
  Item& item = items_.back();
  if (item.num_results++ == 0) {
    item.result = result;
    return;
  }
  if (item.num_results == 2) {
    results_.push_back(std::exchange(item.result, results_.size()));
  }
  results_.push_back(result);
}

void UpdatePass::AddSlot(Slot slot) {
  Item& item = items_.back();
  if (item.num_tensors++ == 0) {
    item.first_slot = static_cast<uint32_t>(slots_.size());
  }
  tensors_.push_back({slot.dtype, item.key->num_elements(), slot.data});
  slots_.push_back(std::move(slot));
}

bool UpdatePass::AddTensor(StoredKey* key, const RefPtr<QueuedCall>& call,
                           const PushEntry& entry, uint32_t result) {
  if (key->rule_state || key->multipliers || !IsTensor(entry) ||
      !key->is_writable()) {
    return false;
  }
  const Tensor& tensor = entry.tensor;
  const uint64_t value_bytes = key->value_bytes();
  // An own buffer becomes the value as it is.
  if (value_bytes >= kOwnBufferBytes && tensor.fills_buffer() &&
      key->rule->kind() == RuleKind::kAssign) {
    return false;
  }
  Item& item = AddItem(key, call, key->revision);
  item.update_count = key->CountUpdate();
  item.num_tensors = 1;
  item.result = result;
  item.num_results = 1;
  const TensorView view = {tensor.dtype(), key->num_elements(), tensor.data()};
  tensors_.push_back(view);
  if (buffers_.empty() || buffers_.back() != tensor.buffer()) {
    buffers_.push_back(tensor.buffer());
  }
  key->value_is_changing = true;
  work_bytes_ +=
      (kUpdateBytes + value_bytes + view.size_bytes()) * work_factor_;
  return true;
}

void UpdatePass::EndAccess(RefPtr<KeyAccess> access) {
  Item& item = items_.back();
  if (access->uses_states() && item.key->rule_state) TakeStates(item);
  access->Begin(*item.key);
  work_bytes_ += kUpdateBytes + access->size_bytes();
  needs_thread_ = true;
  Extend(item).access = std::move(access);
}

void UpdatePass::End(bool has_reservation) {
  Item& item = items_.back();
  StoredKey& key = *item.key;
  item.update_count = key.CountUpdate();
  if (key.rule_state) TakeStates(item);
  if (key.multipliers) Extend(item).multipliers = key.multipliers;
  bool has_rows = false;
  for (const Slot& slot : SlotsOf(item)) has_rows |= bool{slot.rows};
  if (has_rows) needs_thread_ = Extend(item).is_of_rows = true;
  const bool adopts = has_reservation && CanAdopt(item);
  key.value_is_changing = !adopts && key.is_writable();
  if (!key.value_is_changing) TakeTarget(item, adopts, has_reservation);
  if (!adopts) work_bytes_ += WorkBytesOf(item);
}

void UpdatePass::TakeTarget(Item& item, bool adopts, bool has_reservation) {
  Extras& extras = Extend(item);
  extras.is_in_place = false;
  extras.adopts = adopts;
  adopts_ |= adopts;
  if (!has_reservation) ReserveForCopy(*item.key, extras);
}

void UpdatePass::ReserveForCopy(const StoredKey& key, Extras& extras) {
  const RefPtr<Buffer>& value = key.value;
  if (value->size_bytes() == 0) return;  // it may have no account
  extras.is_retained = key.value_is_kept;
  absl::StatusOr<Reservation> reservation = Reservation::Create(
      extras.is_retained ? memory_.device().retained
                         : RefPtr<BudgetAccount>(
                               static_cast<BudgetAccount*>(value->account())),
      value->size_bytes());
  if (reservation.ok()) {
    return ReservationFor(extras).Merge(*std::move(reservation));
  }
  // Nothing is allocated, nor written.
  extras.is_in_place = true;
  extras.status = reservation.status();
}

void UpdatePass::TakeStates(Item& item) {
  RuleState& state = *item.key->rule_state;
  Extras& extras = Extend(item);
  extras.rule_state = item.key->rule_state;
  num_states_ += state.states.size();
  extras.must_fill_states = std::exchange(state.states_are_new, false);
  extras.must_fill_master = std::exchange(state.master_is_new, false);
  if (extras.must_fill_states) {
    for (const auto& each : state.states) work_bytes_ += each->size_bytes();
  }
  if (extras.must_fill_master) {
    work_bytes_ += item.key->value_bytes() + state.master->size_bytes();
  }
}

uint64_t UpdatePass::WorkBytesOf(const Item& item) const {
  uint64_t state_bytes = 0;
  if (const Extras* const extras = ExtrasOf(item)) {
    if (extras->rule_state) state_bytes = extras->rule_state->size_bytes();
    if (extras->is_of_rows && extras->is_in_place &&
        !UpdatesAllRows(SlotsOf(item))) {
      return WorkBytesOfRows(item, state_bytes);
    }
  }
  const int64_t num_elements = item.key->num_elements();
  uint64_t slot_bytes = 0;
  for (const Slot& slot : SlotsOf(item)) {
    slot_bytes += num_elements * SizeOf(slot.dtype);
  }
  // For a mean of those in the middle, each is compared with each.
  if (ExtrasOf(item) && ExtrasOf(item)->num_averaged > 0) {
    slot_bytes *= item.num_tensors;
  }
  return (kUpdateBytes + item.key->value_bytes() + state_bytes + slot_bytes) *
         work_factor_;
}

uint64_t UpdatePass::WorkBytesOfRows(const Item& item,
                                     uint64_t state_bytes) const {
  const int64_t num_rows = std::max<int64_t>(item.key->num_rows(), 1);
  const uint64_t bytes_per_row =
      kUpdateBytes + (2 * item.key->value_bytes() + state_bytes) / num_rows;
  uint64_t bytes = 0;
  for (const Slot& slot : SlotsOf(item)) {
    bytes += slot.rows->size() * bytes_per_row;
  }
  return bytes * work_factor_;
}

bool UpdatePass::CanAdopt(const Item& item) const {
  const Slot& slot = slots_[item.first_slot];
  return item.rule->kind() == RuleKind::kAssign && item.num_tensors == 1 &&
         !slot.is_weighted && slot.dtype == item.key->dtype() &&
         !slot.encoding && !slot.rows &&
         CanBecomeValue(*memory_.device().contributions, slot.buffer.get(),
                        item.key->value_bytes());
}

// The memory that was reserved for a new value is the buffer's now.
void UpdatePass::Adopt(Extras& extras) {
  extras.target = std::move(slots_[ItemOf(extras).first_slot].buffer);
  const size_t bytes = extras.target->size_bytes();
  const RefPtr<MemoryAccount> before = extras.target->ExchangeAccount(
      value_reservation_.Split(bytes).HandOver());
  before->Release(static_cast<int64_t>(bytes));
}

void UpdatePass::Run() {
  RunUpdates();
  if (!needs_thread_) return;
  RunRows();
  RunAccesses();
}

void UpdatePass::RunUpdates() {
  if (!uploads_.copies.empty()) {
    status_ = tensorkv::Start(device_, std::exchange(uploads_, {}));
  }
  if (status_.ok()) status_ = Prepare();
  const size_t most = device_.is_host() ? kUpdatesOfBatch : items_.size();
  while (status_.ok() && num_run_ < items_.size()) {
    const size_t end = num_run_ + std::min(items_.size() - num_run_, most);
    MakeBatch(num_run_, end);
    status_ = RunBatch();
    if (status_.ok()) num_run_ = end;
  }
}

void UpdatePass::Start(absl::AnyInvocable<void() &&> done) {
  status_ = Prepare();
  if (!status_.ok()) return std::move(done)();
  MakeBatch(0, items_.size());
  device_
      .Submit(TakePlan(),
              [this, done = std::move(done)](absl::Status ended) mutable {
                if (ended.ok()) num_run_ = items_.size();
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
          .zeros = zeros_,
          .updates = batch_.updates()};
}

absl::Status UpdatePass::RunBatch() {
  Plan plan = TakePlan();
  if (plan.empty() && (!adopts_ || device_.is_host())) return absl::OkStatus();
  const absl::Status status = device_.Run(std::move(plan));
  zeros_.clear();
  return status;
}

void UpdatePass::RunRows() {
  for (Extras& extras : extras_) {
    if (!extras.is_of_rows || !extras.status.ok()) continue;
    extras.status = status_.ok() ? UpdateRows(ItemOf(extras), extras) : status_;
  }
}

absl::Status UpdatePass::UpdateRows(const Item& item,
                                    const Extras& extras) const {
  if (item.rule->takes_sums()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "rows came before the rule changed to ", item.rule->spec().name,
        ", which takes norms of all elements"));
  }
  std::vector<MutableTensorView> states;
  if (extras.rule_state) AppendStates(*item.key, *extras.rule_state, states);
  RowBatches::Options options = {
      .num_rows = item.key->num_rows(),
      .slots = SlotsOf(item),
      .update_all_rows = UpdatesAllRows(SlotsOf(item)),
      .total_weight = extras.total_weight};
  Describe(item, &extras, /*tensors=*/{}, options.whole);
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
  for (Extras& extras : extras_) {
    const StoredKey& key = *ItemOf(extras).key;
    if (extras.adopts) {
      Adopt(extras);
    } else if (!extras.is_in_place) {
      Reservation& reserved = ReservationFor(extras);
      ASSIGN_OR_RETURN(
          extras.target,
          AllocateReserved(reserved.Split(key.value_bytes()), device_));
    }
    if (extras.must_fill_states) {
      AppendStates(key, *extras.rule_state, zeros_);
    }
  }
  RETURN_IF_ERROR(FillMasters());
  return absl::OkStatus();
}

absl::Status UpdatePass::FillMasters() {
  std::vector<TensorUpdate> conversions;
  std::vector<TensorView> stored;
  for (const Extras& extras : extras_) {
    if (!extras.must_fill_master) continue;
    const StoredKey& key = *ItemOf(extras).key;
    stored.reserve(extras_.size());  // the conversions refer to its elements
    stored.push_back(ValueOf(key));
    TensorUpdate& conversion = conversions.emplace_back();
    conversion.rule = &UpdateRule::Assign();
    conversion.value = ViewOf(key, DType::kF32, *extras.rule_state->master);
    conversion.contributions = absl::MakeConstSpan(&stored.back(), 1);
  }
  return conversions.empty() ? absl::OkStatus() : device_.Apply(conversions);
}

void UpdatePass::RunAccesses() {
  RunCopies();
  for (const Extras& extras : extras_) {
    if (IsIndependent(extras)) extras.access->Run(device_);
  }
}

void UpdatePass::RunCopies() {
  Plan plan;
  std::vector<KeyAccess*> copying;
  for (const Extras& extras : extras_) {
    if (!IsIndependent(extras)) continue;
    const size_t num_before = plan.uploads.size() + plan.downloads.size();
    extras.access->AddCopies(plan.uploads, plan.downloads);
    if (plan.uploads.size() + plan.downloads.size() > num_before) {
      copying.push_back(extras.access.get());
    }
  }
  if (copying.empty()) return;
  const absl::Status status = device_.Run(std::move(plan));
  for (KeyAccess* const access : copying) access->Fail(status);
}

// Rows are updated in a copy of the value where somebody reads that.
void UpdatePass::MakeBatch(size_t begin, size_t end) {
  batch_.Begin(end - begin, slots_.size(), num_states_);
  for (size_t i = begin; i < end; ++i) {
    if (i + kUpdatesAhead < end) {
      __builtin_prefetch(items_[i + kUpdatesAhead].key);
    }
    const Item& item = items_[i];
    const Extras* const extras = ExtrasOf(item);
    if (extras != nullptr) {
      if (extras->adopts || extras->access || !extras->status.ok()) continue;
      if (extras->is_of_rows) {
        const bool copies =
            !extras->is_in_place && !UpdatesAllRows(SlotsOf(item));
        if (copies) batch_.AddCopy(item, *extras);
        continue;
      }
    }
    batch_.Add(item, extras, TensorsOf(item), SlotsOf(item));
  }
}

// The rule may have changed meanwhile; what its new state took over from the
// old one must still be filled.
void UpdatePass::Undo(const Item& item) const {
  StoredKey& key = *item.key;
  key.EndCount(/*is_applied=*/false);
  const Extras* const extras = ExtrasOf(item);
  if (extras == nullptr || !extras->rule_state || !key.rule_state) return;
  const RuleState& old = *extras->rule_state;
  RuleState& present = *key.rule_state;
  if (present.states == old.states) {
    present.states_are_new |= extras->must_fill_states;
  }
  if (present.master == old.master) {
    present.master_is_new |= extras->must_fill_master;
  }
}

bool UpdatePass::CompleteRest(const Item& item, const absl::Status& status) {
  KeyAccess* const access = AccessOf(item);
  if (access != nullptr) access->End(*item.key, status, *item.rule);
  if (!status.ok()) Undo(item);
  if (!status.ok() || access != nullptr) return false;
  Extras& extras = extras_[item.extras];
  if (!extras.is_in_place) std::swap(item.key->value, extras.target);
  return true;
}

}  // namespace tensorkv
