// Saves and restores a namespace.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "service/store/keyspace/key_creation.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/push/staged_tensors.h"
#include "service/store/keyspace/rules/multipliers_change.h"
#include "service/store/keyspace/rules/rule_change.h"
#include "service/store/keyspace/rules/rules_hold.h"
#include "service/store/keyspace/rules/state_access.h"
#include "service/store/keyspace/snapshots/letting_go.h"
#include "service/store/keyspace/snapshots/open_snapshots.h"
#include "service/store/keyspace/snapshots/restored_counts.h"
#include "service/store/keyspace/snapshots/saved_clients.h"
#include "service/store/keyspace/snapshots/snapshot_copies.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/updates/update_runner.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Bounds how many keys one locking of the mutex takes: about 50 us.
constexpr size_t kKeysPerSnapshotLock = 256;
// Bounds the bytes of these keys: their states are copied at once, for all of
// which the keys' updates wait, and their values may change while they are in
// the reader's hands.
constexpr uint64_t kBytesPerSnapshotLock = 16 << 20;
// Bounds the keys of one locking of a restore, which mostly has the namespace
// to itself.
constexpr size_t kKeysPerRestoreBatch = 4096;

// --- Saving ------------------------------------------------------------------

// Measures how long the mutex is held.
class Pause {
 public:
  Pause(const NamespaceState& state, SnapshotSink& sink)
      : alarms_(*state.environment.alarms), sink_(sink) {}
  ~Pause() { sink_.Paused(alarms_.Now() - start_); }

 private:
  const Alarms& alarms_;
  SnapshotSink& sink_;
  const absl::Duration start_ = alarms_.Now();
};

// Returns which numbers each series has given, some for each locking of the
// mutex. They may be later ones than those of a checkpoint: what is restored
// goes on above them. Of a move nothing is named above them.
std::vector<std::pair<std::string, uint64_t>> SeriesOf(
    const NamespaceState& state, SnapshotSink& sink) {
  std::vector<std::pair<std::string, uint64_t>> some;
  for (bool is_all = false; !is_all;) {
    MutexLock lock(&state.mutex);
    const Pause pause(state, sink);
    const Series::Map& all = state.named->series();
    auto next = some.empty() ? all.begin() : all.upper_bound(some.back().first);
    for (size_t i = 0; i < kKeysPerLock && next != all.end(); ++i, ++next) {
      some.emplace_back(next->first, state.named->LastWhole(next->second));
    }
    is_all = next == all.end();
  }
  return some;
}

// One snapshot on its way. Used by one thread.
class SnapshotRun {
 public:
  using Stage = MovingKeys::Stage;

  // Takes all keys.
  SnapshotRun(NamespaceState& state, SnapshotSink& sink)
      : state_(state), sink_(sink), snapshot_(state.name) {}
  // Takes what a stage of a move is to send. What changes while it is not the
  // last stage is sent in the next one, so that no change need know of it.
  SnapshotRun(NamespaceState& state, SnapshotSink& sink, MovingKeys* moving,
              Stage stage)
      : state_(state),
        sink_(sink),
        moving_(moving),
        stage_(stage),
        snapshot_(state.name, moving->partitions()) {}
  ~SnapshotRun() {
    while (is_open_) {
      std::vector<KeptKeyPtr> dropped;  // they go without the mutex
      MutexLock lock(&state_.mutex);
      Close(dropped);
    }
    ready_.clear();
    waiting_.clear();
    if (!is_reading_) return;
    MutexLock lock(&state_.mutex);
    state_.snapshots->EndReading();
  }

  absl::Status Run() {
    ASSIGN_OR_RETURN(NamespaceSnapshot begun, Begin());
    RETURN_IF_ERROR(sink_.Begin(std::move(begun)));
    while (!snapshot_.is_walked) {
      RETURN_IF_ERROR(Walk());
      RETURN_IF_ERROR(HandOver());
    }
    while (AwaitKeys()) RETURN_IF_ERROR(HandOver());
    return sink_.End();
  }

 private:
  bool is_of_all() const { return moving_ == nullptr; }
  // Returns whether the home moves. The numbers of series are the home's, and
  // are fenced with its partition.
  bool MovesHome() const {
    return !is_of_all() && stage_ == Stage::kLast &&
           moving_->partitions()->Fences(state_.name, "");
  }
  // Begins the snapshot, and returns what it has besides keys. Errors:
  // Unavailable, if rules change as keys move.
  absl::StatusOr<NamespaceSnapshot> Begin();
  // Takes the snapshot's revision, and sets what goes with exactly that.
  // Errors: those of Begin.
  absl::Status Open(NamespaceSnapshot& snapshot);
  // Takes the next keys: those that have changed, and then, if there are no
  // more of these, some of the table. Errors: ResourceExhausted.
  absl::Status Walk();
  void WalkTable(Transaction& transaction, std::vector<KeptKeyPtr>& taken);
  // Closes the snapshot, or does a part of that. REQUIRES: the mutex is held.
  void Close(std::vector<KeptKeyPtr>& dropped) {
    is_open_ = !state_.snapshots->Close(&snapshot_, kKeysPerLock, dropped);
  }
  // Adds a key to those that are ready or wait. REQUIRES: the mutex is held.
  void AddTaken(KeptKeyPtr key) {
    if (key->is_ready()) {
      ready_.push_back(std::move(key));
    } else {
      waiting_.push_back(std::move(key));
    }
  }
  // Looks which of the next keys that wait are ready now. REQUIRES: the mutex
  // is held.
  void FindReady();
  // Passes the keys that are ready to the sink, and lets them go.
  absl::Status HandOver();
  // Bring tensors that the device has to the host, where they are retained.
  absl::Status BringToHost(KeySnapshot& key, bool has_states_on_device) const;
  absl::Status BringToHost(Tensor& tensor) const;
  // Blocks until some of the keys that wait are ready; returns false if none
  // waits.
  bool AwaitKeys();

  NamespaceState& state_;
  SnapshotSink& sink_;
  // Null if this is of no move.
  MovingKeys* const moving_ = nullptr;
  const Stage stage_ = Stage::kLast;
  OpenSnapshot snapshot_;
  bool is_open_ = false;
  bool is_reading_ = false;
  // Those that were taken and are yet to be passed on, after their copies have
  // ended. The mutex guards the keys that wait.
  std::vector<KeptKeyPtr> ready_;
  std::deque<KeptKeyPtr> waiting_;
};

absl::StatusOr<NamespaceSnapshot> SnapshotRun::Begin() {
  NamespaceSnapshot snapshot;
  snapshot.name = state_.name;
  snapshot.uid = state_.uid;
  // Answers stay with the server that has given them.
  const auto paused = [this](absl::Duration pause) { sink_.Paused(pause); };
  std::vector<ClientSnapshot> before;
  if (is_of_all()) before = state_.calls->Save(paused);
  RETURN_IF_ERROR(Open(snapshot));
  if (snapshot.has_only_changes) {
    snapshot.removed_keys = moving_->RecordedNames();
  }
  // So much as the server has, be that another one then.
  if (snapshot.config.budget_bytes ==
      state_.environment.budgets->largest_bytes()) {
    snapshot.config.budget_bytes = 0;
  }
  if (is_of_all() || MovesHome()) snapshot.series = SeriesOf(state_, sink_);
  if (is_of_all()) {
    snapshot.clients =
        ClientsOfSnapshot(std::move(before), state_.calls->Save(paused),
                          state_.config.mode == Mode::kSync);
  }
  return snapshot;
}

// No key is on the way from one rule to another meanwhile. A change of rules
// takes long, and nobody waits while keys are shut.
absl::Status SnapshotRun::Open(NamespaceSnapshot& snapshot) {
  const bool may_wait = is_of_all() || stage_ == Stage::kAhead;
  const std::optional<RulesHold> rules_stay =
      may_wait ? AwaitRules(state_) : TryHoldRules(state_);
  if (!rules_stay) {
    return absl::UnavailableError(
        absl::StrCat("namespace ", Quoted(state_.name),
                     ": its rules change as its keys are to move"));
  }
  const std::shared_ptr<const RuleBindings> bound = state_.Bindings();
  snapshot.rules = bound->List();
  snapshot.multipliers = bound->multipliers.List();
  MutexLock lock(&state_.mutex);
  const Pause pause(state_, sink_);
  state_.snapshots->BeginReading();
  is_reading_ = true;
  if (stage_ == Stage::kLast) {
    state_.snapshots->Open(&snapshot_, state_.revisions.Next());
    is_open_ = true;
  } else {
    snapshot_.revision = UINT64_MAX;  // each key is taken as it is then
  }
  snapshot.revision = state_.revisions.last();
  if (!is_of_all()) {
    RETURN_IF_ERROR(
        moving_->BeginStage(stage_, snapshot.revision, bound, snapshot));
  }
  snapshot.config = state_.config;
  snapshot.former_quorums = state_.mode->former_quorums();
  snapshot.max_version =
      std::max(state_.version_floor, state_.restored_versions);
  snapshot.restored_versions = state_.restored_versions;
  snapshot.workers = state_.workers->Save();
  snapshot.max_closed_step = state_.workers->max_closed();
  return absl::OkStatus();
}

// A key that changes before its turn in the table is among those that have
// changed from then on, so these come first. Once all are taken, no change
// needs to know of the snapshot: what waits in the queues of keys stays there.
absl::Status SnapshotRun::Walk() {
  std::vector<KeptKeyPtr> taken;
  std::vector<KeptKeyPtr> dropped;  // they go without the mutex
  Transaction transaction(state_, Transaction::Thread::kOwn);
  {
    const Pause pause(state_, sink_);
    // Others may have taken since what was free of the budget.
    MakeRoom(transaction, {});
    const absl::Status status =
        state_.memory.CheckRetained({}, state_.named->leaving());
    if (!status.ok()) {
      transaction.Drop(state_.snapshots->FailAll(status));
      return status;
    }
    RETURN_IF_ERROR(snapshot_.failure);
    if (!is_open_ || state_.snapshots->Take(snapshot_, kKeysPerSnapshotLock,
                                            taken, dropped)) {
      WalkTable(transaction, taken);
      if (snapshot_.is_walked && is_open_) Close(dropped);
    }
    for (KeptKeyPtr& key : taken) AddTaken(std::move(key));
  }
  transaction.Unlock();
  return absl::OkStatus();
}

void SnapshotRun::WalkTable(Transaction& transaction,
                            std::vector<KeptKeyPtr>& taken) {
  const std::vector<StoredKey*> keys =
      state_.keys.List("", snapshot_.walked, kKeysPerSnapshotLock);
  uint64_t bytes = 0;
  size_t num_walked = 0;
  while (num_walked < keys.size() && bytes < kBytesPerSnapshotLock) {
    StoredKey& key = *keys[num_walked++];
    if (!snapshot_.Lacks(key.name())) continue;
    if (moving_ != nullptr && !moving_->HasChanged(key)) continue;
    KeptKeyPtr kept = TakeForSnapshot(transaction, key, snapshot_);
    if (!kept) continue;
    bytes += kept->bytes_to_copy() + key.value_bytes();
    taken.push_back(std::move(kept));
  }
  if (num_walked > 0)
    snapshot_.walked = std::string(keys[num_walked - 1]->name());
  snapshot_.is_walked =
      num_walked == keys.size() && keys.size() < kKeysPerSnapshotLock;
}

void SnapshotRun::FindReady() {
  const size_t num_keys = std::min(waiting_.size(), kKeysPerSnapshotLock);
  for (size_t i = 0; i < num_keys; ++i) {
    KeptKeyPtr key = std::move(waiting_.front());
    waiting_.pop_front();
    AddTaken(std::move(key));
  }
}

absl::Status SnapshotRun::HandOver() {
  if (!waiting_.empty()) {
    MutexLock lock(&state_.mutex);
    FindReady();
  }
  for (KeptKeyPtr& key : std::exchange(ready_, {})) {
    RETURN_IF_ERROR(key->status());
    KeySnapshot snapshot = key->At(snapshot_.revision);
    const bool has_states_on_device = key->has_states_on_device();
    key = nullptr;
    RETURN_IF_ERROR(BringToHost(snapshot, has_states_on_device));
    RETURN_IF_ERROR(sink_.Add(std::move(snapshot)));
  }
  return absl::OkStatus();
}

// Waits only once it has looked at all. Those that it has looked at last are
// not ready then, and each of them tells when it is.
bool SnapshotRun::AwaitKeys() {
  size_t num_looked = 0;
  while (ready_.empty() && !waiting_.empty()) {
    MutexLock lock(&state_.mutex);
    FindReady();
    num_looked += kKeysPerSnapshotLock;
    if (ready_.empty() && num_looked >= waiting_.size()) {
      state_.snapshots->changed().wait(state_.mutex);
    }
  }
  return !ready_.empty();
}

absl::Status SnapshotRun::BringToHost(KeySnapshot& key,
                                      bool has_states_on_device) const {
  if (!state_.tensor_placement->copies()) return absl::OkStatus();
  RETURN_IF_ERROR(BringToHost(key.value));
  if (!has_states_on_device) return absl::OkStatus();
  for (StateSnapshot& state : key.states) {
    RETURN_IF_ERROR(BringToHost(state.tensor));
  }
  return absl::OkStatus();
}

absl::Status SnapshotRun::BringToHost(Tensor& tensor) const {
  RETURN_IF_ERROR(state_.memory.CheckRetained(
      {.host = static_cast<uint64_t>(tensor.size_bytes())}));
  ASSIGN_OR_RETURN(Tensor on_host,
                   AllocateOnHost(state_.memory.host().retained, tensor.dtype(),
                                  tensor.shape()));
  RETURN_IF_ERROR(state_.device().Run(
      {.downloads = {{tensor.data(), on_host.mutable_data(),
                      static_cast<size_t>(tensor.size_bytes())}}}));
  tensor = std::move(on_host);
  return absl::OkStatus();
}

// --- Restoring ---------------------------------------------------------------

// Returns whether the tensor's memory can become a key's: nobody else has or
// counts it, and it was allocated for this tensor alone. An adopted one may be
// read-only.
bool CanGiveBuffer(const Tensor& tensor) {
  return tensor.fills_buffer() && tensor.buffer()->IsUnique() &&
         !tensor.buffer()->account() &&
         dynamic_cast<const HostBuffer*>(tensor.buffer().get()) != nullptr;
}

// Has nobody count the tensor, which `account` counts: what becomes of it is
// counted anew, and must not be counted twice.
void Uncount(BudgetAccount& account, Tensor& tensor) {
  if (!IsCountedBy(account, tensor) || !tensor.fills_buffer() ||
      !tensor.buffer()->IsUnique()) {
    return;
  }
  RefPtr<Buffer> buffer = tensor.TakeBuffer();
  (void)buffer->ExchangeAccount(nullptr);
  account.Release(static_cast<int64_t>(buffer->size_bytes()));
  tensor.SetBuffer(std::move(buffer), 0);
}

// Has `account` count no more of what was allocated for the keys than the
// values that become those of keys as they are.
void UncountOthers(const RefPtr<BudgetAccount>& account,
                   absl::Span<KeySnapshot> keys) {
  for (KeySnapshot& key : keys) {
    for (StateSnapshot& state : key.states) Uncount(*account, state.tensor);
    const Tensor& value = key.value;
    if (!value.has_data() ||
        CanBecomeValue(*account, value.buffer().get(), value.size_bytes())) {
      continue;
    }
    Uncount(*account, key.value);
  }
}

// Gives a state of a key what was saved of it: the memory itself, if both are
// on the host and it can be kept; else `access` is to copy it.
void RestoreState(absl::string_view name, Tensor& saved, bool is_on_host,
                  RefPtr<Buffer>& state, StateAccess& access) {
  if (is_on_host && state->IsUnique() && CanGiveBuffer(saved)) {
    RefPtr<Buffer> buffer = saved.TakeBuffer();
    (void)buffer->ExchangeAccount(state->ExchangeAccount(nullptr));
    state = std::move(buffer);
    return;
  }
  access.Add(std::string(name), std::move(saved));
}

Tensor* FindState(KeySnapshot& snapshot, absl::string_view name, DType dtype,
                  const Shape& shape) {
  for (StateSnapshot& state : snapshot.states) {
    if (state.name == name && state.tensor.dtype() == dtype &&
        state.tensor.shape() == shape) {
      return &state.tensor;
    }
  }
  return nullptr;
}

// Returns the access that copies to the key, which is new, the states that were
// saved; it is empty if all are there at once. They stay new if the key has
// another rule by now.
RefPtr<StateAccess> RestoreStates(KeySnapshot& snapshot, bool is_on_host,
                                  StoredKey& key) {
  auto access = MakeRefCounted<StateAccess>(StateAccess::Kind::kWrite);
  if (key.rule_state == nullptr) return access;
  RuleState& state = *key.rule_state;
  const absl::Span<const StateSpec> specs = key.rule->states();
  std::vector<Tensor*> saved;
  for (const StateSpec& spec : specs) {
    saved.push_back(FindState(snapshot, spec.name,
                              StateSpec::DTypeFor(key.dtype()),
                              spec.ShapeFor(key.shape())));
  }
  if (!saved.empty() && std::count(saved.begin(), saved.end(), nullptr) == 0) {
    for (size_t i = 0; i < saved.size(); ++i) {
      RestoreState(specs[i].name, *saved[i], is_on_host, state.states[i],
                   *access);
    }
    state.states_are_new = false;
  }
  if (!state.master) return access;
  Tensor* const master =
      FindState(snapshot, kSavedMaster, DType::kF32, key.shape());
  if (master == nullptr) return access;
  RestoreState(kMasterState, *master, is_on_host, state.master, *access);
  state.master_is_new = false;
  return access;
}

// Gives the key, which is new, all that was saved of it but for its value. What
// must be copied is, before its first update, by an access of `call`. REQUIRES:
// the mutex is held.
absl::Status RestoreKey(Transaction& transaction,
                        const RefPtr<QueuedCall>& call, KeySnapshot& snapshot,
                        StoredKey& key) {
  const NamespaceState& state = transaction.state();
  key.version = snapshot.version;
  key.update_count = snapshot.update_count;
  RefPtr<StateAccess> access =
      RestoreStates(snapshot, !state.tensor_placement->copies(), key);
  if (!access->empty()) {
    PendingUpdate update;
    update.access = std::move(access);
    update.call = call;
    ++call->num_pending;
    Enqueue(transaction, key, std::move(update));
  }
  return state.mode->Restore(snapshot, state.memory.metadata(), key);
}

// Returns the namespace's part in the move that is under way, of that first
// stage or a later one. Nobody ends it meanwhile.
MovingKeys* MovingOf(NamespaceState& state,
                     std::shared_ptr<const KeyFence::View> partitions) {
  MutexLock lock(&state.mutex);
  if (state.moving == nullptr) {
    state.moving = std::make_unique<MovingKeys>(
        state.name, std::move(partitions), state.memory.metadata());
  }
  return state.moving.get();
}

}  // namespace

absl::Status Namespace::TakeSnapshot(SnapshotSink& sink) {
  return SnapshotRun(*state_, sink).Run();
}

absl::Status Namespace::TakeChanges(
    std::shared_ptr<const KeyFence::View> partitions, SnapshotSink& sink) {
  return SnapshotRun(*state_, sink, MovingOf(*state_, std::move(partitions)),
                     MovingKeys::Stage::kAhead)
      .Run();
}

absl::Status Namespace::TakeSnapshotOfFenced(SnapshotSink& sink) {
  std::shared_ptr<const KeyFence::View> fence =
      state_->environment.fence->view();
  if (fence == nullptr) return absl::OkStatus();  // no partition moves
  RETURN_IF_ERROR(SnapshotRun(*state_, sink,
                              MovingOf(*state_, std::move(fence)),
                              MovingKeys::Stage::kLast)
                      .Run());
  // Rounds that had closed and were not applied may have failed since Fence.
  if (FenceKeysIfIdle()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("namespace ", Quoted(state_->name),
                   ": the update of a round has failed, which is to be pushed "
                   "again before its key moves"));
}

absl::Status Namespace::BindRules(const NamespaceSnapshot& snapshot) {
  const RulesHold rules = AwaitRules(*state_);
  for (auto bound = snapshot.rules.rbegin(); bound != snapshot.rules.rend();
       ++bound) {
    RETURN_IF_ERROR(BindRule(rules, {}, bound->key_pattern, bound->rule));
  }
  for (auto bound = snapshot.multipliers.rbegin();
       bound != snapshot.multipliers.rend(); ++bound) {
    RETURN_IF_ERROR(
        BindMultipliers(rules, {}, bound->key_pattern, bound->multipliers));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Namespace>> Namespace::Restore(
    const NamespaceSnapshot& snapshot,
    const NamespaceEnvironment& environment) {
  NamespaceConfig config = snapshot.config;
  config.budget_bytes =
      std::min(config.budget_bytes, environment.budgets->largest_bytes());
  RETURN_IF_ERROR(
      CheckRanks(snapshot.workers, PushMode::GroupOf(config).max_workers));
  ASSIGN_OR_RETURN(
      std::shared_ptr<Namespace> restored,
      Create(snapshot.name, std::move(config), environment, snapshot.uid));
  restored->LiftBudget();
  RETURN_IF_ERROR(restored->BindRules(snapshot));
  RETURN_IF_ERROR(restored->RestoreSeries(snapshot));
  NamespaceState& state = *restored->state_;
  RETURN_IF_ERROR(state.calls->Restore(snapshot.clients));
  const uint64_t num_ranks =
      snapshot.workers.empty() ? 0 : snapshot.workers.back().worker.rank + 1;
  MutexLock lock(&state.mutex);
  ASSIGN_OR_RETURN(state.worker_overhead,
                   Reservation::Create(state.memory.metadata(),
                                       num_ranks * kWorkerOverheadBytes));
  state.workers->Restore(snapshot.workers, snapshot.max_closed_step,
                         state.Now());
  state.mode->RestoreQuorums(snapshot.former_quorums);
  state.keys.Reserve(snapshot.num_keys);
  RestoreCounts(snapshot, state);
  return restored;
}

void Namespace::LiftBudget() {
  state_->memory.SetLimit(state_->environment.budgets->largest_bytes());
}

void Namespace::EndLiftOfBudget() {
  MutexLock lock(&state_->mutex);
  state_->memory.SetLimit(state_->config.budget_bytes);
}

absl::StatusOr<Tensor> Namespace::AllocateToRestore(DType dtype,
                                                    const Shape& shape) const {
  return AllocateOnHost(state_->memory.host().contributions, dtype, shape);
}

absl::Status Namespace::RestoreKeys(std::vector<KeySnapshot> keys,
                                    bool have_arrived) {
  NamespaceState& state = *state_;
  const absl::Span<KeySnapshot> all = absl::MakeSpan(keys);
  if (!state.tensor_placement->copies()) {
    UncountOthers(state.memory.host().contributions, all);
  }
  Step first_unsaved = UINT64_MAX;
  // Says how the copies of states have ended, which run on the device.
  absl::Status copied;
  const auto call = MakeRefCounted<QueuedCall>();
  const size_t most =
      std::min<size_t>(state.environment.max_entries, kKeysPerRestoreBatch);
  for (size_t i = 0; i < all.size() && copied.ok(); i += most) {
    const absl::Span<KeySnapshot> batch = all.subspan(i, most);
    InitRequest request;
    request.entries.reserve(batch.size());
    for (KeySnapshot& key : batch) {
      request.entries.push_back({key.key, std::move(key.value)});
      first_unsaved = std::min(first_unsaved, key.first_unsaved);
    }
    call->done = [&copied](absl::StatusOr<PushReply> reply) {
      copied = reply.status();
    };
    const auto restore = [&](Transaction& transaction, size_t entry,
                             StoredKey& key) {
      return RestoreKey(transaction, call, batch[entry], key);
    };
    RETURN_IF_ERROR(
        CreateKeys(state, std::move(request), have_arrived, restore));
  }
  {
    MutexLock lock(&state.mutex);
    state.workers->RepeatFrom(first_unsaved);
  }
  return copied;
}

}  // namespace tensorkv
