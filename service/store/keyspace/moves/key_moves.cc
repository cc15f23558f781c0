// Moves keys of a namespace to another server, and from one.

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/keyspace/config_fields.h"
#include "service/store/keyspace/key_removal.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/restored_counts.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/keyspace/workers/membership.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// REQUIRES: the mutex is held.
template <typename Visitor>
void ForEachFencedKeyWithRounds(const NamespaceState& state,
                                const KeyFence::View& fence, Visitor visit) {
  for (const StoredKey* key : state.keys_with_rounds) {
    if (fence.Fences(state.name, key->name())) visit(*key);
  }
}

// Returns whether all who have contributed were members, and none is any more.
// Nobody closes then the rounds that are open, nor makes again those that must
// be pushed again, before they have joined: wherever the keys are by then, they
// hear to go back to that step. Workers that do not join may push all the time,
// also where their steps have gone back to 0. REQUIRES: the mutex is held.
bool IsDeserted(const NamespaceState& state) {
  const WorkerGroup& workers = *state.workers;
  if (workers.num_live() > 0 || workers.max_epoch() == 0) return false;
  const uint32_t end = PushMode::GroupOf(state.config).max_workers;
  int64_t num_contributors = 0;
  for (uint32_t rank = 0; rank < end; ++rank) {
    num_contributors += workers.step_of(rank) > 0 ? 1 : 0;
  }
  return num_contributors ==
         std::ranges::count_if(workers.List(state.Now()),
                               [&workers](const MemberStatus& member) {
                                 return workers.step_of(member.worker.rank) > 0;
                               });
}

// Returns whether calls find any keys here, as not all are on their way. Where
// none do, nobody is disturbed by a walk over all. REQUIRES: the mutex is held.
bool HasOpenKeys(const NamespaceState& state) {
  const auto fence = state.Fence();
  const auto is_open = [&](const StoredKey* key) {
    return fence == nullptr || fence->CheckRead(state.name, key->name()).ok();
  };
  std::vector<StoredKey*> keys;
  do {
    const std::string last(keys.empty() ? "" : keys.back()->name());
    keys = state.keys.List("", last, kKeysPerLock);
    if (std::ranges::any_of(keys, is_open)) return true;
  } while (keys.size() == kKeysPerLock);
  return false;
}

// Has the group make `step` and later ones again. Who has joined since all had
// left the keys that come may have been told a later step, and would pass over
// this one: it is lost, and joins again. REQUIRES: the mutex is held.
void RepeatFrom(Transaction& transaction, Step step) {
  NamespaceState& state = transaction.state();
  state.workers->RepeatFrom(step);
  std::vector<uint32_t> ranks;
  for (const MemberStatus& member : state.workers->List(state.Now())) {
    if (!member.live) continue;
    state.workers->EndLease(member.worker, state.Now());
    ranks.push_back(member.worker.rank);
  }
  if (ranks.empty()) return;
  LoseWorkers(transaction, ranks);
  OnWorkersGone(transaction, ranks);
}

// Takes the key out of the table. Nobody waits for it: it was closed before, or
// never asked for.
void Drop(Transaction& transaction, StoredKey& key) {
  NamespaceState& state = transaction.state();
  state.version_floor = std::max(state.version_floor, state.LastVersionOf(key));
  RemoveKey(transaction, key, Removal::kGone);
  transaction.MarkChanged();
}

}  // namespace

void Namespace::FenceKeys() {
  MutexLock lock(&state_->mutex);
  KeyFence& fence = *state_->environment.fence;
  const auto view = fence.view();
  Step last_step = 0;
  if (view != nullptr) {
    ForEachFencedKeyWithRounds(*state_, *view, [&](const StoredKey& key) {
      // Steps that must be pushed again are, and then close.
      last_step = std::max(last_step, key.rounds->last_awaited());
    });
  }
  fence.FenceNamespace(state_->name, last_step);
}

bool Namespace::FenceKeysIfIdle() {
  MutexLock lock(&state_->mutex);
  KeyFence& fence = *state_->environment.fence;
  const auto view = fence.view();
  bool is_idle = true;
  if (view != nullptr) {
    ForEachFencedKeyWithRounds(*state_, *view,
                               [&](const StoredKey&) { is_idle = false; });
    is_idle = is_idle || IsDeserted(*state_);
  }
  if (is_idle) fence.FenceNamespace(state_->name, 0);
  return is_idle;
}

void Namespace::WakeForFence() {
  Transaction transaction(*state_);
  WakeAll(transaction);
}

void Namespace::DropKeys(absl::FunctionRef<bool(absl::string_view)> chosen) {
  std::string walked;
  bool has_more = true;
  while (has_more) {
    Transaction transaction(*state_);
    const std::vector<StoredKey*> keys =
        state_->keys.List("", walked, kKeysPerLock);
    has_more = keys.size() == kKeysPerLock;
    if (has_more) walked = std::string(keys.back()->name());
    for (StoredKey* const key : keys) {
      if (chosen(key->name())) Drop(transaction, *key);
    }
  }
}

void Namespace::DropKeys(absl::Span<const std::string> names) {
  for (size_t i = 0; i < names.size(); i += kKeysPerLock) {
    Transaction transaction(*state_);
    for (const std::string& name : names.subspan(i, kKeysPerLock)) {
      StoredKey* const key = transaction.state().keys.Find(name);
      if (key != nullptr) Drop(transaction, *key);
    }
  }
}

void Namespace::EndStage(bool is_sent) {
  MovingKeys::Recorded recorded;  // it goes without the mutex
  MutexLock lock(&state_->mutex);
  if (state_->moving != nullptr) {
    recorded = state_->moving->EndStage(is_sent);
  }
}

void Namespace::EndMove() {
  std::unique_ptr<MovingKeys> ended;  // it goes without the mutex
  MutexLock lock(&state_->mutex);
  ended = std::move(state_->moving);
}

absl::Status Namespace::CheckIsSame(const NamespaceSnapshot& snapshot) const {
  if (snapshot.uid != uid()) {
    return WasReplaced(state_->name, snapshot.uid, uid());
  }
  const NamespaceConfig present = config();
  // What UpdateNamespace changes is here as this server has been told last: it
  // may have reached the other one, or a checkpoint, earlier, later or never.
  RETURN_IF_ERROR(CheckSameConfig(
      absl::StrCat("namespace ", Quoted(state_->name),
                   " of the server that its keys are from"),
      state_->name, present, snapshot.config, ConfigFields::kFixed));
  return CheckRanks(snapshot.workers, PushMode::GroupOf(present).max_workers);
}

absl::Status Namespace::BeginAdoption(const NamespaceSnapshot& snapshot) {
  RETURN_IF_ERROR(CheckIsSame(snapshot));
  return HasKeys() ? absl::OkStatus() : BindRules(snapshot);
}

absl::Status Namespace::RestoreSeries(const NamespaceSnapshot& snapshot) {
  MutexLock lock(&state_->mutex);
  for (const auto& [name, latest] : snapshot.series) {
    RETURN_IF_ERROR(state_->named->RestoreSeries(name, latest));
  }
  return absl::OkStatus();
}

void Namespace::Adopt(const NamespaceSnapshot& snapshot, Step first_unsaved) {
  Transaction transaction(*state_);
  NamespaceState& state = transaction.state();
  state.version_floor = std::max(state.version_floor, snapshot.max_version);
  // Also of keys that come with versions from before their restore.
  state.restored_versions =
      std::max(state.restored_versions, snapshot.restored_versions);
  state.revisions.Raise(snapshot.revision);
  const bool has_keys = HasOpenKeys(state);
  // Workers that have come or left since the first keys came here need not have
  // known of this server.
  if (!has_keys) {
    state.workers->Restore(snapshot.workers, snapshot.max_closed_step,
                           state.Now());
  }
  state.workers->AdoptSteps(snapshot.workers, snapshot.max_closed_step,
                            has_keys);
  if (first_unsaved != UINT64_MAX) RepeatFrom(transaction, first_unsaved);
  // Who waits may do so for less, or as a member that it is no more.
  WakeAll(transaction);
}

bool Namespace::HasKeys() const {
  MutexLock lock(&state_->mutex);
  return state_->keys.size() > 0;
}

void Namespace::PassOverVersions() {
  MutexLock lock(&state_->mutex);
  NamespaceState& state = *state_;
  state.restored_versions = std::max(
      state.restored_versions,
      RestoredFloor(std::max(state.version_floor, state.restored_versions)));
  state.version_floor = std::max(state.version_floor, state.restored_versions);
  state.revisions.Raise(RestoredFloor(state.revisions.last()));
}

void Namespace::TakeOver(const NamespaceSnapshot& snapshot, bool had_keys,
                         bool has_come) {
  Transaction transaction(*state_);
  NamespaceState& state = transaction.state();
  RestoreCounts(snapshot, state);
  state.workers->AdoptSteps(snapshot.workers, snapshot.max_closed_step,
                            had_keys);
  // The steps there say nothing of the keys here, if none has come.
  const bool stays = had_keys && !has_come;
  state.workers->GoBack(stays ? state.workers->Save() : snapshot.workers,
                        state.Now());
  // Whoever waits as a member is none any more.
  WakeAll(transaction);
}

}  // namespace tensorkv
