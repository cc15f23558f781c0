#include "service/store/keyspace/updates/update_runner.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/store/keyspace/rounds/round_endings.h"
#include "service/store/keyspace/snapshots/snapshot_copies.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/round_exchange.h"

namespace tensorkv {
namespace {

// Ends the call if it waits for no more updates.
void EndIfComplete(Transaction& transaction, QueuedCall& call) {
  if (call.num_pending > 0) return;
  // Not as if nothing had happened: the call must not be made again.
  if (!call.status.ok() && call.num_applied > 0) {
    call.status = absl::InternalError(
        absl::StrCat("applied to ", call.num_applied,
                     " keys, not to the others: ", call.status.message()));
  }
  transaction.Send(RefPtr<QueuedCall>(&call));
}

// Ends one of the updates or accesses that the call waits for. Those that only
// read apply nothing.
void EndUpdateOf(Transaction& transaction, QueuedCall& call,
                 const absl::Status& status, bool writes = true) {
  if (!status.ok()) {
    call.status = status;
  } else if (writes) {
    ++call.num_applied;
  }
  --call.num_pending;
  EndIfComplete(transaction, call);
}

// Something that the pool or the device has yet to do. When nobody has it any
// more, the store may end.
struct Unfinished {
  explicit Unfinished(NamespaceState& state)
      : under_way(state.environment.work_under_way),
        state(state.shared_from_this()) {
    under_way->Begin();
  }
  Unfinished(const Unfinished&) = delete;
  ~Unfinished() {
    state = nullptr;
    under_way->End();
  }

  const std::shared_ptr<WorkUnderWay> under_way;
  std::shared_ptr<NamespaceState> state;
};

// A pass that the device runs, which goes first.
struct RunningPass : Unfinished {
  RunningPass(NamespaceState& state, UpdatePass updates)
      : Unfinished(state),
        pass(std::make_unique<UpdatePass>(std::move(updates))) {}

  std::unique_ptr<UpdatePass> pass;
};

// Fails the copies that wait for the key, which would have a round that is not
// in the value.
void FailCopies(StoredKey& key, const absl::Status& status) {
  if (!key.has_pending()) return;
  for (const PendingUpdate& each : key.pending()) {
    if (each.is_copy()) each.access->Fail(status);
  }
}

// Adds the key to `keys` if its next update can run.
void AddIfPending(StoredKey& key, std::vector<KeyPtr>& keys) {
  if (key.is_updating || !key.has_pending()) return;
  key.is_updating = true;
  keys.emplace_back(&key);
}

}  // namespace

void Enqueue(Transaction& transaction, StoredKey& key, PendingUpdate update) {
  if (update.slots.empty() && !update.access) {  // every worker has skipped
    NamespaceState& state = transaction.state();
    ++state.counts.rounds_closed;
    if (state.moving) state.moving->Record(key.name());
    if (!key.is_updating) key.rounds->RecordApplied(update.round, key.version);
    return Wake(transaction, key.name());
  }
  bool may_begin = !key.is_updating;
  if (!update.access || update.access->writes()) {
    const bool has_reservation =
        update.access || update.value_reservation.bytes() > 0;
    may_begin = TryBegin(transaction, key, has_reservation);
    update.revision = key.revision;
    transaction.state().revisions.Begin(update.revision);
  }
  if (may_begin) {
    return transaction.work().updates.Add(&key, std::move(update));
  }
  key.pending().push_back(std::move(update));
}

void UpdateRunner::Run(WorkOfChange work) {
  if (!state_.device().is_host()) {
    const bool waits = !work.partial_sums.empty() || !work.updates.CanStart() ||
                       work.updates.items().size() > kMaxKeysInline;
    return waits ? RunOnPool(std::move(work))
                 : RunPass(std::move(work.updates));
  }
  if (work.work_bytes() <= kMaxBytesInline) return RunHere(std::move(work));
  RunOnPool(std::move(work));
}

void UpdateRunner::RunOnPool(WorkOfChange work) {
  if (work.empty()) return;
  state_.Submit([unfinished = std::make_unique<Unfinished>(state_),
                 work = std::move(work)]() mutable {
    UpdateRunner(*unfinished->state).RunHere(std::move(work));
  });
}

void UpdateRunner::RunHere(WorkOfChange work) {
  if (!work.partial_sums.empty())
    RunPartialSums(state_, std::move(work.partial_sums));
  RunPass(std::move(work.updates));
}

void UpdateRunner::RunPass(UpdatePass updates) {
  if (updates.empty()) return;
  if (updates.CanStart()) return StartPass(std::move(updates));
  std::vector<KeyPtr> more;
  {
    Transaction transaction(state_, std::defer_lock);
    UpdatePass pass = std::move(updates);
    pass.Run();
    transaction.Lock();
    more = EndPass(transaction, pass);
    transaction.Unlock();
    TellExchange(pass);
  }
  RunNext(std::move(more));
}

void UpdateRunner::TellExchange(UpdatePass& pass) const {
  if (!state_.config.mirrored) return;
  for (const UpdatePass::Item& item : pass.items()) {
    if (item.round == 0 || !pass.StatusOf(item).ok()) continue;
    state_.environment.exchange->Applied(state_.name, item.key->name(),
                                         item.round);
  }
}

// Many keys are not for the device's thread to publish, if there is another.
void UpdateRunner::StartPass(UpdatePass updates) {
  const auto running =
      std::make_shared<RunningPass>(state_, std::move(updates));
  running->pass->Start([running] {
    TaskPool::Task publish = [running] {
      UpdateRunner(*running->state).PublishPass(std::move(running->pass));
    };
    const bool is_large = running->pass->items().size() > kMaxKeysInline;
    if (!is_large || !running->state->Submit(std::move(publish))) {
      std::move(publish)();
    }
  });
}

void UpdateRunner::PublishPass(std::unique_ptr<UpdatePass> pass) {
  std::vector<KeyPtr> more;
  {
    Transaction transaction(state_, std::defer_lock,
                            Transaction::Thread::kDevice);
    const std::unique_ptr<UpdatePass> ended = std::move(pass);
    transaction.Lock();
    more = EndPass(transaction, *ended);
    transaction.Unlock();
    TellExchange(*ended);
  }
  RunNext(std::move(more));
}

// Goes on here with what the device ends when the pool has stopped.
void UpdateRunner::RunNext(std::vector<KeyPtr> keys) {
  if (keys.empty()) return;
  TaskPool::Task run = [unfinished = std::make_unique<Unfinished>(state_),
                        keys = std::move(keys)] {
    UpdateRunner(*unfinished->state).RunPending(keys);
  };
  if (!state_.Submit(std::move(run))) std::move(run)();
}

void UpdateRunner::RunPending(absl::Span<const KeyPtr> keys) {
  UpdatePass updates(&state_.device(), &state_.memory);
  updates.Reserve(keys.size());
  {
    MutexLock lock(&state_.mutex);
    for (const KeyPtr& key : keys) {
      MayHaveValue(state_, *key);  // else this update pays for a new one
      updates.AddPending(key.get());
    }
  }
  RunPass(std::move(updates));
}

std::vector<KeyPtr> UpdateRunner::EndPass(Transaction& transaction,
                                          UpdatePass& pass) {
  NamespaceState& state = transaction.state();
  state.keys.RecordEndedUpdate();
  std::vector<KeyPtr> more;
  const uint64_t failed_before = state.counts.rounds_failed;
  EndSimple(transaction, pass.simple(), more);
  for (UpdatePass::Item& item : pass.items()) {
    UpdatePass::Complete(item, pass.StatusOf(item), state.restored_versions);
    EndUpdate(transaction, pass, item);
    AddIfPending(*item.key, more);
  }
  if (state.waits.num_parked() == 0) return more;
  if (state.counts.rounds_failed > failed_before) {
    WakeAll(transaction);
    return more;
  }
  // After all are published: a waiting pull sees one moment of all its keys.
  for (const UpdatePass::Item& item : pass.items()) {
    Wake(transaction, item.key->name());
  }
  for (const SimpleUpdates::Update& update : pass.simple().updates()) {
    Wake(transaction, update.key->name());
  }
  return more;
}

void UpdateRunner::EndSimple(Transaction& transaction,
                             const SimpleUpdates& updates,
                             std::vector<KeyPtr>& more) {
  if (updates.updates().empty()) return;
  NamespaceState& state = transaction.state();
  QueuedCall& call = *updates.call();
  for (const SimpleUpdates::Update& update : updates.updates()) {
    SimpleUpdates::Complete(update, updates.StatusOf(update),
                            state.restored_versions);
    call.reply.results[update.result].version = update.key->version;
    AddIfPending(*update.key, more);
  }
  state.counts.updates_applied += updates.num_run();
  call.num_applied += updates.num_run();
  call.num_pending -= updates.updates().size();
  if (updates.num_run() < updates.updates().size()) {
    call.status = updates.status();
  }
  EndIfComplete(transaction, call);
  state.revisions.End(updates.revision(), updates.updates().size());
}

void UpdateRunner::EndUpdate(Transaction& transaction, const UpdatePass& pass,
                             const UpdatePass::Item& item) {
  const absl::Status& status = pass.StatusOf(item);
  if (status.ok() && !item.access) ++transaction.state().counts.updates_applied;
  if (item.is_retained || MayHaveValue(transaction.state(), *item.key)) {
    const bool is_replaced = status.ok() && !item.is_in_place;
    RetainFormer(transaction, *item.key,
                 is_replaced ? item.target.get() : nullptr);
  }
  const bool writes = item.revision != 0;
  if (writes) transaction.state().revisions.End(item.revision);
  if (item.round != 0) EndRound(transaction, item, status);
  // Rounds that all have skipped may have closed during the access.
  if (item.access && item.key->rounds) {
    item.key->rounds->RecordSkipped(item.key->version);
  }
  if (item.call == nullptr) return;
  for (const uint32_t result : pass.ResultsOf(item)) {
    item.call->reply.results[result].version = item.key->version;
  }
  EndUpdateOf(transaction, *item.call, status, writes);
}

void UpdateRunner::EndRound(Transaction& transaction,
                            const UpdatePass::Item& item,
                            const absl::Status& status) {
  NamespaceState& state = transaction.state();
  if (status.ok()) ++state.counts.rounds_closed;
  StoredKey& key = *item.key;
  if (!key.rounds) {  // deleted or replaced meanwhile
    if (!status.ok()) FailCopies(key, status);
    return;
  }
  if (status.ok()) {
    key.rounds->RecordApplied(item.round, key.version);
    return BeginExchange(transaction, key);
  }
  // Rounds that have closed since were to be applied to the value that is not
  // there. Accesses that wait among the updates end with them, but for copies.
  std::list<PendingUpdate> copies;
  std::list<PendingUpdate> ended;
  while (key.has_pending()) {
    PendingUpdate update = key.TakePending();
    if (update.revision != 0) state.revisions.End(update.revision);
    if (update.access && update.call) {
      EndUpdateOf(transaction, *update.call, status);
    }
    std::list<PendingUpdate>& to = update.is_copy() ? copies : ended;
    to.push_back(std::move(update));
  }
  if (!copies.empty()) key.pending() = std::move(copies);
  if (!ended.empty()) transaction.Drop(std::move(ended));
  FailRounds(transaction, key, item.round,
             std::make_shared<RoundFailure>(
                 RoundFailure{std::string(status.message()), {}}));
}

}  // namespace tensorkv
