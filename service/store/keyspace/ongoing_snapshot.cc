#include "service/store/keyspace/ongoing_snapshot.h"

#include <utility>

#include "base/status_macros.h"
#include "service/store/counted_buffer.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/update_runner.h"

namespace tensorkv {

absl::StatusOr<Tensor> AllocateOnHost(const RefPtr<BudgetAccount>& account,
                                      DType dtype, const Shape& shape) {
  const uint64_t bytes = shape.num_elements() * SizeOf(dtype);
  ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                   AllocateCounted(account, bytes, &HostBuffer::Allocate));
  return Tensor::Unchecked(dtype, shape, std::move(buffer));
}

namespace {

// So many bytes of states are copied at once; their keys wait for all of them.
constexpr uint64_t kBytesPerLock = 16 << 20;

std::vector<ContributionSnapshot> ContributionsOf(
    const LastContributions& contributions) {
  std::vector<ContributionSnapshot> last;
  for (uint32_t rank = 0; rank < contributions.by_rank.size(); ++rank) {
    const LastContributions::Of& of = contributions.by_rank[rank];
    if (of.step > 0) last.push_back({{rank, of.identity}, of.step});
  }
  return last;
}

// Adds a copy of one state to the snapshot.
absl::Status AddState(const NamespaceState& state, absl::string_view name,
                      DType dtype, const Shape& shape, const Buffer& buffer,
                      StateCopy& copy, std::vector<MemoryCopy>& copies) {
  StateSnapshot added = {.name = std::string(name)};
  ASSIGN_OR_RETURN(added.tensor,
                   AllocateOnHost(state.memory.host().state, dtype, shape));
  copies.push_back({buffer.data(), added.tensor.mutable_data(),
                    static_cast<size_t>(added.tensor.size_bytes())});
  copy.key.snapshot.states.push_back(std::move(added));
  return absl::OkStatus();
}

absl::Status AddStates(const NamespaceState& state, StateCopy& copy,
                       std::vector<MemoryCopy>& copies) {
  const RuleState& states = *copy.rule_state;
  const DType dtype = copy.key.snapshot.value.dtype();
  const Shape shape = copy.key.snapshot.value.shape();
  for (size_t i = 0; copy.has_states && i < states.states.size(); ++i) {
    const StateSpec& spec = copy.key.rule->states()[i];
    RETURN_IF_ERROR(AddState(state, spec.name, StateSpec::DTypeFor(dtype),
                             spec.ShapeFor(shape), *states.states[i], copy,
                             copies));
  }
  if (!copy.has_master) return absl::OkStatus();
  return AddState(state, kSavedMaster, DType::kF32, shape, *states.master, copy,
                  copies);
}

}  // namespace

bool OngoingSnapshot::IsHandled(const StoredKey& key) const {
  return key.name() <= walked_ || handled_.contains(&key) || !Has(key);
}

void OngoingSnapshot::BeforeChange(Transaction& transaction, StoredKey& key) {
  const NamespaceState& state = transaction.state();
  OngoingSnapshot* const ongoing = state.snapshot.get();
  if (ongoing == nullptr || ongoing->IsHandled(key)) return;
  if (state.keys.Find(key.name()) != &key) return;
  ongoing->handled_.insert(&key);
  std::vector<StateCopy> copies;
  ongoing->Handle(key, copies);
  for (StateCopy& copy : copies) {
    transaction.work().copies.push_back(std::move(copy));
  }
}

void OngoingSnapshot::BeforeRuleChange(Transaction& transaction,
                                       StoredKey& key) {
  OngoingSnapshot* const ongoing = transaction.state().snapshot.get();
  if (ongoing == nullptr) return;
  BeforeChange(transaction, key);
  const auto waiting = ongoing->waiting_.find(&key);
  if (waiting == ongoing->waiting_.end() || waiting->second.former) return;
  waiting->second.former = RuleNow(key);
}

void OngoingSnapshot::AfterCreation(Transaction& transaction, StoredKey& key) {
  OngoingSnapshot* const ongoing = transaction.state().snapshot.get();
  if (ongoing != nullptr && !ongoing->IsHandled(key))
    ongoing->handled_.insert(&key);
}

void OngoingSnapshot::AfterRemoval(Transaction& transaction,
                                   const StoredKey& key) {
  OngoingSnapshot* const ongoing = transaction.state().snapshot.get();
  if (ongoing != nullptr) ongoing->handled_.erase(&key);
}

void OngoingSnapshot::AfterUpdate(Transaction& transaction, StoredKey& key) {
  OngoingSnapshot* const ongoing = transaction.state().snapshot.get();
  if (ongoing == nullptr) return;
  const auto waiting = ongoing->waiting_.find(&key);
  if (waiting == ongoing->waiting_.end()) return;
  // An update that fails takes those behind it with it.
  if (--waiting->second.num_updates > 0 && key.has_pending()) return;
  Waiting had = std::move(waiting->second);
  ongoing->waiting_.erase(waiting);
  std::vector<StateCopy> copies;
  ongoing->TakeNow(key, std::move(had.key),
                   had.former ? *had.former : RuleNow(key), copies);
  for (StateCopy& copy : copies) {
    transaction.work().copies.push_back(std::move(copy));
  }
}

void OngoingSnapshot::Handle(StoredKey& key, std::vector<StateCopy>& copies) {
  SnapshotKey taken;
  taken.key = RefPtr<StoredKey>(&key);
  taken.snapshot.key = std::string(key.name());
  // They are taken as of the snapshot: later records are of later updates.
  if (key.contributions) {
    taken.snapshot.contributions = ContributionsOf(*key.contributions);
  }
  if (key.rounds) {
    taken.snapshot.rounds = key.rounds->Applied();
    // They may have failed, and nobody be there to push them again, before what
    // is ahead has ended.
    taken.snapshot.first_unsaved = key.rounds->FirstUnclosed();
  }
  const uint64_t num_updates = key.num_updates_ahead();
  if (num_updates == 0) {
    return TakeNow(key, std::move(taken), RuleNow(key), copies);
  }
  waiting_.emplace(&key, Waiting{std::move(taken), num_updates, {}});
}

void OngoingSnapshot::TakeNow(StoredKey& key, SnapshotKey taken,
                              const RuleOfKey& rule,
                              std::vector<StateCopy>& copies) {
  KeySnapshot& snapshot = taken.snapshot;
  snapshot.value = key.ToTensor();
  snapshot.version = key.version;
  snapshot.update_count = rule.update_count;
  snapshot.total_weight = rule.total_weight;
  // Rounds that have closed since are not applied: the updates of later rounds
  // wait.
  if (key.rounds) {
    snapshot.rounds = key.rounds->Applied();
    snapshot.first_unsaved =
        std::min(snapshot.first_unsaved, key.rounds->FirstUnapplied());
  }
  taken.rule = rule.rule;
  const RuleState* const state = rule.state.get();
  StateCopy copy;
  copy.has_states =
      state != nullptr && !state->states.empty() && !state->states_are_new;
  copy.has_master = state != nullptr && state->master && !state->master_is_new;
  changed_.notify_all();
  if (!copy.has_states && !copy.has_master) {
    taken.key = nullptr;
    taken_.push_back(std::move(taken));
    return;
  }
  copy.ongoing = shared_from_this();
  copy.rule_state = rule.state;
  copy.key = std::move(taken);
  copies.push_back(std::move(copy));
  key.is_updating = true;
  ++num_copying_;
}

void OngoingSnapshot::Copy(NamespaceState& state,
                           std::vector<StateCopy> copies) {
  std::vector<MemoryCopy> bytes;
  absl::Status status;
  for (StateCopy& copy : copies) status.Update(AddStates(state, copy, bytes));
  if (status.ok()) {
    status = state.device().Run({.downloads = std::move(bytes)});
  }
  std::vector<KeyPtr> more;
  {
    Transaction transaction(state);
    for (StateCopy& copy : copies) {
      EndUpdating(transaction, copy.key.key, more);
      --copy.ongoing->num_copying_;
      copy.ongoing->UpdateStatus(status);
      if (!status.ok()) continue;
      copy.key.key = nullptr;
      copy.ongoing->taken_.push_back(std::move(copy.key));
    }
    transaction.Unlock();
  }
  UpdateRunner(state).RunNext(std::move(more));
}

bool OngoingSnapshot::Walk(NamespaceState& state, size_t max_keys,
                           std::vector<StateCopy>& copies) {
  const std::vector<StoredKey*> keys = state.keys.List("", walked_, max_keys);
  uint64_t bytes = 0;
  size_t num_walked = 0;
  while (num_walked < keys.size() && bytes < kBytesPerLock) {
    StoredKey& key = *keys[num_walked++];
    const bool is_handled = handled_.erase(&key) > 0;
    const size_t num_copies = copies.size();
    if (!is_handled && Has(key)) Handle(key, copies);
    if (copies.size() > num_copies) bytes += copies.back().size_bytes();
  }
  if (num_walked > 0) walked_ = std::string(keys[num_walked - 1]->name());
  return num_walked < keys.size() || keys.size() == max_keys;
}

bool OngoingSnapshot::Await(NamespaceState& state) {
  while (status_.ok() && taken_.empty()) {
    if (waiting_.empty() && num_copying_ == 0) return false;
    changed_.wait(state.mutex);
  }
  return status_.ok();
}

void OngoingSnapshot::AwaitCopies(NamespaceState& state) {
  while (num_copying_ > 0) changed_.wait(state.mutex);
}

}  // namespace tensorkv
