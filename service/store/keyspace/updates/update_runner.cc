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

// Ends the call, which waits for no more updates.
void EndCall(Transaction& transaction, QueuedCall& call) {
  // Not as if nothing had happened: the call must not be made again.
  if (!call.status.ok() && call.num_applied > 0) {
    call.status = absl::InternalError(
        absl::StrCat("applied to ", call.num_applied,
                     " keys, not to the others: ", call.status.message()));
  }
  transaction.Send(RefPtr<QueuedCall>(&call));
}

// Ends so many of the updates or accesses that the call waits for, of which
// `num_applied` have changed something.
void EndUpdatesOf(Transaction& transaction, QueuedCall& call, size_t num_ended,
                  size_t num_applied) {
  call.num_applied += num_applied;
  call.num_pending -= num_ended;
  if (call.num_pending == 0) EndCall(transaction, call);
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

// Records that the update of a round has ended; fails the round, and later
// ones, if it failed.
void EndRound(Transaction& transaction, const UpdatePass::Item& item,
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
      update.call->status = status;
      EndUpdatesOf(transaction, *update.call, /*num_ended=*/1,
                   /*num_applied=*/0);
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

// Records the end of what not every update has: a round, an access, a former
// value that snapshots have.
void EndRest(Transaction& transaction, const UpdatePass& pass,
             const UpdatePass::Item& item, const absl::Status& status) {
  StoredKey& key = *item.key;
  const UpdateExtras* const extras = pass.ExtrasOf(item);
  const bool is_retained = extras != nullptr && extras->is_retained;
  if (is_retained || MayHaveValue(transaction.state(), key)) {
    const bool is_replaced = status.ok() && extras != nullptr;
    RetainFormer(transaction, key,
                 is_replaced ? extras->target.get() : nullptr);
  }
  if (item.round != 0) EndRound(transaction, item, status);
  // Rounds that all have skipped may have closed during the access.
  if (pass.AccessOf(item) != nullptr && key.rounds) {
    key.rounds->RecordSkipped(key.version);
  }
}

// Publishes what comes from `origin`, and answers its call if that waits for
// nothing else. Adds the keys that have more to run to `more`.
void EndItems(Transaction& transaction, UpdatePass& pass,
              const UpdateOrigin& origin,
              absl::Span<const UpdatePass::Item> items,
              std::vector<KeyPtr>& more) {
  NamespaceState& state = transaction.state();
  QueuedCall* const call = origin.call.get();
  size_t num_ok = 0;
  size_t num_accessed = 0;
  for (const UpdatePass::Item& item : items) {
    StoredKey& key = *item.key;
    const absl::Status& status = pass.StatusOf(item);
    pass.Complete(item, status, state.restored_versions);
    num_ok += status.ok();
    num_accessed += status.ok() && pass.AccessOf(item) != nullptr;
    if (state.changes.is_on() && status.ok() && !key.is_removed &&
        pass.AccessOf(item) == nullptr) {
      state.changes.Record(ChangeKind::kValue, key.name(), key.version,
                           origin.revision);
    }
    if (item.extras != UpdatePass::Item::kNone || item.round != 0 ||
        key.value_is_kept) {
      EndRest(transaction, pass, item, status);
    }
    if (call != nullptr) {
      if (!status.ok()) call->status = status;
      for (const uint32_t result : pass.ResultsOf(item)) {
        call->reply.results[result].version = key.version;
      }
    }
    AddIfPending(key, more);
  }
  state.counts.updates_applied += num_ok - num_accessed;
  const bool writes = origin.revision != 0;
  if (writes) state.revisions.End(origin.revision, items.size());
  if (call == nullptr) return;
  EndUpdatesOf(transaction, *call, items.size(), writes ? num_ok : 0);
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
    // Nobody else keeps a key that was deleted while it was idle.
    if (key.is_removed) {
      transaction.state().keys.DeferDestruction(KeyPtr(&key));
    }
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
    more = Publish(transaction, pass);
  }
  RunNext(std::move(more));
}

std::vector<KeyPtr> UpdateRunner::Publish(Transaction& transaction,
                                          UpdatePass& pass) {
  transaction.Lock();
  std::vector<KeyPtr> more = EndPass(transaction, pass);
  // Lists, of a mirrored namespace, the sums that are in their values now.
  std::vector<std::pair<std::string, Step>> applied;
  if (state_.config.mirrored) {
    for (const UpdatePass::Item& item : pass.items()) {
      if (item.round == 0 || !pass.StatusOf(item).ok()) continue;
      applied.emplace_back(item.key->name(), item.round);
    }
  }
  transaction.Unlock();
  for (const auto& [key, round] : applied) {
    state_.environment.exchange->Applied(state_.name, key, round);
  }
  return more;
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
    more = Publish(transaction, *ended);
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
  size_t first = 0;
  for (const UpdateOrigin& origin : pass.origins()) {
    EndItems(transaction, pass, origin,
             pass.items().subspan(first, origin.num_items), more);
    first += origin.num_items;
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
  return more;
}

}  // namespace tensorkv
