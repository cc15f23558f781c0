// The store's part in moves of partitions.

#include "service/store/partition_moves.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "contract/placement.h"
#include "service/store/keyspace/push/staged_tensors.h"
#include "service/store/memory_tensor_store.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Says how often a move looks whether rounds have closed.
constexpr absl::Duration kLookAgain = absl::Milliseconds(10);

// For how long before a move begins a namespace that was deleted here may be
// there at the other server: clients delete it at one server after the other.
constexpr absl::Duration kDeletesSpread = absl::Seconds(10);

absl::Status NoNamespaceYet() {
  return absl::FailedPreconditionError("expected a namespace before keys");
}

// IsIn tells whether a key is in one of the partitions.
class IsIn {
 public:
  explicit IsIn(const PartitionSet& set) : members_(set.num_partitions) {
    for (const uint32_t each : set.partitions) members_[each] = true;
  }
  bool operator()(absl::string_view name_space, absl::string_view key) const {
    return !members_.empty() &&
           members_[PartitionOf(name_space, key,
                                static_cast<uint32_t>(members_.size()))];
  }

 private:
  std::vector<bool> members_;
};

}  // namespace

// Passes keys on stage by stage. Used by one thread.
class MemoryTensorStore::OutgoingMove {
 public:
  explicit OutgoingMove(const MemoryTensorStore& store) : store_(store) {}
  ~OutgoingMove() {
    for (const auto& [name, name_space] : begun_) name_space->EndMove();
  }

  static absl::Status CheckNoneIsMirrored(const MemoryTensorStore& store) {
    for (const std::string& name : store.Names()) {
      if (!store.IsMirrored(name).value_or(false)) continue;
      return absl::UnimplementedError(
          absl::StrCat("namespace ", Quoted(name),
                       ": it is mirrored, and a server that gets partitions "
                       "might not have it"));
    }
    return absl::OkStatus();
  }

  // Passes on what is fenced if `partitions` is null.
  absl::Status Take(std::shared_ptr<const KeyFence::View> partitions,
                    SnapshotSink& sink) {
    for (const std::string& name : store_.Names()) {
      const absl::StatusOr<NamespacePtr> found = store_.Find(name);
      // It was deleted meanwhile.
      if (!found.ok()) continue;
      const auto [begun, is_new] = begun_.try_emplace(name, *found);
      if (begun->second != *found) break;
      const absl::Status taken = partitions == nullptr
                                     ? (*found)->TakeSnapshotOfFenced(sink)
                                     : (*found)->TakeChanges(partitions, sink);
      (*found)->EndStage(taken.ok());
      RETURN_IF_ERROR(taken);
    }
    return CheckAreThere();
  }

 private:
  // Errors: Aborted: what was passed on of a namespace is of one that has gone.
  absl::Status CheckAreThere() const {
    for (const auto& [name, name_space] : begun_) {
      const absl::StatusOr<NamespacePtr> found = store_.Find(name);
      if (found.ok() && *found == name_space) continue;
      return absl::AbortedError(absl::StrCat(
          "namespace ", Quoted(name), ": it was deleted while its keys moved"));
    }
    return absl::OkStatus();
  }

  const MemoryTensorStore& store_;
  std::map<std::string, NamespacePtr> begun_;
};

absl::Status MemoryTensorStore::TakeChanges(const PartitionSet& partitions,
                                            SnapshotSink& sink) {
  RETURN_IF_ERROR(OutgoingMove::CheckNoneIsMirrored(*this));
  if (move_ == nullptr) move_ = std::make_shared<OutgoingMove>(*this);
  fence_.Unfence();
  return move_->Take(KeyFence::ViewOf(partitions), sink);
}

absl::Status MemoryTensorStore::Fence(
    const PartitionSet& partitions,
    absl::FunctionRef<absl::Status()> may_wait) {
  RETURN_IF_ERROR(OutgoingMove::CheckNoneIsMirrored(*this));
  fence_.BeginMove(partitions);
  for (const NamespacePtr& each : All()) each->FenceKeys();
  fence_.FenceAll();
  for (const std::string& name : Names()) {
    const absl::StatusOr<NamespacePtr> found = Find(name);
    while (found.ok() && !(*found)->FenceKeysIfIdle()) {
      const absl::Status waits = may_wait();
      if (!waits.ok()) {
        return absl::Status(
            waits.code(),
            absl::StrCat("namespace ", Quoted(name),
                         ": rounds of keys that are to move do not close: ",
                         waits.message()));
      }
      absl::SleepFor(kLookAgain);
    }
  }
  return absl::OkStatus();
}

absl::Status MemoryTensorStore::TakeSnapshotOfFenced(SnapshotSink& sink) {
  if (move_ == nullptr) move_ = std::make_shared<OutgoingMove>(*this);
  return move_->Take(/*partitions=*/nullptr, sink);
}

void MemoryTensorStore::FenceReads() {
  fence_.FenceReads();
  for (const NamespacePtr& each : All()) each->WakeForFence();
}

void MemoryTensorStore::Unfence() {
  move_ = nullptr;
  fence_.Unfence();
}

void MemoryTensorStore::DropKeys(
    absl::FunctionRef<bool(absl::string_view, absl::string_view)> chosen) {
  for (const auto& name : Names()) {
    const absl::StatusOr<NamespacePtr> found = Find(name);
    // Mirrored keys are here whoever owns their partitions.
    if (!found.ok() || (*found)->is_mirrored()) continue;
    (*found)->DropKeys(
        [&](absl::string_view key) { return chosen(name, key); });
    // Another server is the home, and has named others by the time that this
    // one is again.
    if (chosen(name, "")) (*found)->CloseSeries();
  }
}

void MemoryTensorStore::GiveAway() {
  move_ = nullptr;
  // Asked for each key: what comes back meanwhile is fenced no more, and stays.
  DropKeys([&](absl::string_view name_space, absl::string_view key) {
    const auto fence = fence_.view();
    return fence != nullptr && fence->Fences(name_space, key);
  });
  fence_.GiveAway();
}

class MemoryTensorStore::StoreAdoption final : public Restoration {
 public:
  StoreAdoption(MemoryTensorStore& store, const PartitionSet& partitions)
      : store_(store),
        is_in_(partitions),
        deletes_since_(store.environment_.alarms->Now() - kDeletesSpread) {}

  absl::Status Begin(const NamespaceSnapshot& name_space) override {
    if (name_space.config.mode == Mode::kBounded) {
      return absl::UnimplementedError(
          absl::StrCat("namespace ", Quoted(name_space.name),
                       ": MODE_BOUNDED is not for several servers"));
    }
    if (!store_.Find(name_space.name).ok() &&
        store_.MayBeDeletedSince(name_space.name, deletes_since_)) {
      return absl::AbortedError(absl::StrCat(
          "namespace ", Quoted(name_space.name),
          ": it was deleted here as its keys began to move, or so many others "
          "were that it may be among them: move them again"));
    }
    ASSIGN_OR_RETURN(const NamespacePtr found,
                     store_.FindOrRestore(name_space));
    Begun& begun = begun_[name_space.name];
    const bool begins_again = begun.name_space != nullptr;
    if (begins_again ? begun.name_space != found
                     : name_space.has_only_changes) {
      return WasReplacedSince(name_space.name);
    }
    begun.name_space = found;
    begun.snapshot = name_space;
    // A stage brings all steps that are open, also those that were open before.
    begun.first_unsaved = UINT64_MAX;
    last_ = &begun;
    if (name_space.has_only_changes) {
      Drop(name_space.removed_keys);
      return found->RestoreSeries(name_space);
    }
    if (begins_again) {
      found->DropKeys(
          [&](absl::string_view key) { return is_in_(name_space.name, key); });
    }
    RETURN_IF_ERROR(found->BeginAdoption(name_space));
    return found->RestoreSeries(name_space);
  }

  absl::StatusOr<Tensor> Allocate(DType dtype, Shape shape) override {
    if (last_ == nullptr) return NoNamespaceYet();
    return last_->name_space->AllocateToRestore(dtype, shape);
  }

  absl::Status Add(std::vector<KeySnapshot> keys) override {
    if (last_ == nullptr) return NoNamespaceYet();
    std::vector<std::string> names;
    for (KeySnapshot& key : keys) {
      names.push_back(key.key);
      // The group goes back once all keys are here.
      last_->first_unsaved = std::min(last_->first_unsaved, key.first_unsaved);
      key.first_unsaved = UINT64_MAX;
    }
    if (last_->snapshot.has_only_changes) Drop(std::move(names));
    return last_->name_space->RestoreKeys(std::move(keys),
                                          /*have_arrived=*/true);
  }

  absl::Status Commit() override {
    for (const auto& [name, begun] : begun_) {
      const absl::StatusOr<NamespacePtr> found = store_.Find(name);
      if (!found.ok() || *found != begun.name_space) {
        return WasReplacedSince(name);
      }
    }
    for (const auto& [name, begun] : begun_) {
      begun.name_space->Adopt(begun.snapshot, begun.first_unsaved);
    }
    return absl::OkStatus();
  }

 private:
  // A namespace that has begun, as it began last.
  struct Begun {
    NamespacePtr name_space;
    NamespaceSnapshot snapshot;
    Step first_unsaved = UINT64_MAX;
  };

  static absl::Status WasReplacedSince(const std::string& name_space) {
    return absl::AbortedError(absl::StrCat(
        "namespace ", Quoted(name_space),
        ": it was replaced here while its keys moved: move them again"));
  }

  // Removes what has come of these keys of the last namespace.
  void Drop(std::vector<std::string> names) const {
    std::erase_if(names, [&](const std::string& name) {
      return !is_in_(last_->snapshot.name, name);
    });
    last_->name_space->DropKeys(names);
  }

  MemoryTensorStore& store_;
  const IsIn is_in_;
  const absl::Duration deletes_since_;
  std::map<std::string, Begun> begun_;
  // Null: none has begun.
  Begun* last_ = nullptr;
};

class MemoryTensorStore::StoreTakeover final : public Restoration {
 public:
  StoreTakeover(MemoryTensorStore& store, const PartitionSet& partitions)
      : store_(store), is_in_(partitions) {}
  ~StoreTakeover() override {
    for (const Begun& each : begun_) each.name_space->EndLiftOfBudget();
  }

  absl::Status Begin(const NamespaceSnapshot& name_space) override {
    // The servers that are left have all of its keys.
    is_passed_over_ = name_space.config.mirrored;
    if (is_passed_over_) return absl::OkStatus();
    NamespaceSnapshot saved = name_space;
    // Their effects are not all here.
    saved.clients.clear();
    // Most may be of partitions that do not come here.
    saved.num_keys = 0;
    ASSIGN_OR_RETURN(NamespacePtr found, store_.FindOrRestore(saved));
    // Else it was created anew since.
    is_passed_over_ = !found->CheckIsSame(saved).ok();
    if (is_passed_over_) return absl::OkStatus();
    RETURN_IF_ERROR(found->RestoreSeries(saved));
    const bool has_keys = found->HasKeys();
    // As in a restore: its server may have had more than a budget since then.
    if (!has_keys) found->LiftBudget();
    begun_.push_back({std::move(found), std::move(saved), has_keys});
    return absl::OkStatus();
  }

  absl::StatusOr<Tensor> Allocate(DType dtype, Shape shape) override {
    if (!is_passed_over_) {
      return begun_.back().name_space->AllocateToRestore(dtype, shape);
    }
    ASSIGN_OR_RETURN(Tensor tensor,
                     Tensor::WithoutData(dtype, std::move(shape)));
    RETURN_IF_ERROR(AllocateStaged(passed_over_, {&tensor}));
    return tensor;
  }

  absl::Status Add(std::vector<KeySnapshot> keys) override {
    if (is_passed_over_) return absl::OkStatus();
    Begun& last = begun_.back();
    std::erase_if(keys, [&](const KeySnapshot& key) {
      return !is_in_(last.saved.name, key.key);
    });
    for (KeySnapshot& key : keys) {
      // The group goes back once everything is here.
      RepeatFrom(std::exchange(key.first_unsaved, UINT64_MAX), last);
    }
    if (keys.empty()) return absl::OkStatus();
    last.has_come = true;
    return last.name_space->RestoreKeys(std::move(keys), /*have_arrived=*/true);
  }

  // Groups go back once everything is there: what fails before disturbs nobody.
  absl::Status Commit() override {
    for (const Begun& each : begun_) {
      each.name_space->TakeOver(each.saved, each.had_keys, each.has_come);
    }
    for (const NamespacePtr& each : store_.All()) {
      if (!each->is_mirrored()) each->PassOverVersions();
    }
    return absl::OkStatus();
  }

 private:
  struct Begun {
    NamespacePtr name_space;
    NamespaceSnapshot saved;
    // Before those that come.
    bool had_keys = false;
    bool has_come = false;
  };

  // Workers are to make `step` again, of which the checkpoint lacks what some
  // had contributed.
  static void RepeatFrom(Step step, Begun& begun) {
    for (WorkerSnapshot& worker : begun.saved.workers) {
      if (step > worker.step) continue;
      worker.repeats_step = true;
      worker.step = std::min(worker.step, std::max(step, worker.first_step));
    }
  }

  MemoryTensorStore& store_;
  const IsIn is_in_;
  std::vector<Begun> begun_;
  // The one that was begun last.
  bool is_passed_over_ = true;
  // Counts what is read of those that are.
  const RefPtr<BudgetAccount> passed_over_ =
      MakeRefCounted<BudgetAccount>(store_.budgets().host());
};

absl::StatusOr<MemoryTensorStore::NamespacePtr>
MemoryTensorStore::FindOrRestore(const NamespaceSnapshot& name_space) {
  if (!Find(name_space.name, name_space.uid).ok()) {
    RETURN_IF_ERROR(RestoreIfAbsent(name_space));
  }
  // Where it is another one, CheckIsSame says so.
  return Find(name_space.name);
}

absl::Status MemoryTensorStore::RestoreIfAbsent(
    const NamespaceSnapshot& name_space) {
  const auto restoration = StartRestoration(OnExisting::kFail);
  absl::Status status = restoration->Begin(name_space);
  if (status.ok()) status = restoration->Commit();
  // Somebody else may create it at the same time.
  return absl::IsAlreadyExists(status) ? absl::OkStatus() : status;
}

void MemoryTensorStore::NameDefault(uint64_t uid) {
  if (uid == own_default_uid_) return;
  NamespacePtr name_space = MakeDefault(uid);
  {
    MutexLock lock(&mutex_);
    NamespacePtr& present = namespaces_.find(kDefaultNamespace)->second;
    const bool is_own = present->uid() == own_default_uid_;
    if (!is_own || present->Summarize().num_keys > 0) return;
    std::swap(present, name_space);
  }
  name_space->End(WasReplaced(kDefaultNamespace, own_default_uid_, uid));
}

bool MemoryTensorStore::MayBeDeletedSince(absl::string_view name_space,
                                          absl::Duration since) const {
  MutexLock lock(&mutex_);
  return deleted_.MayBeDeletedSince(name_space, since);
}

std::unique_ptr<Restoration> MemoryTensorStore::StartAdoption(
    const PartitionSet& partitions) {
  // First: what waits since the keys were here before adds none to them.
  fence_.MarkGone(partitions);
  Discard(partitions);
  return std::make_unique<StoreAdoption>(*this, partitions);
}

std::unique_ptr<Restoration> MemoryTensorStore::StartTakeover(
    const PartitionSet& partitions) {
  fence_.MarkGone(partitions);
  Discard(partitions);
  return std::make_unique<StoreTakeover>(*this, partitions);
}

void MemoryTensorStore::Own(const PartitionSet& partitions) {
  const std::shared_ptr<const OwnedPartitions> before = fence_.owned();
  const PartitionSet opened = fence_.Own(partitions);
  const bool has_others =
      before == nullptr || before->digest() != fence_.owned()->digest();
  if (!has_others && opened.partitions.empty()) return;
  for (const NamespacePtr& each : All()) {
    if (!each->is_mirrored()) each->BreakWatches();
  }
}

void MemoryTensorStore::Discard(const PartitionSet& partitions) {
  DropKeys(IsIn(partitions));
}

std::optional<bool> MemoryTensorStore::IsMirrored(
    absl::string_view name_space) const {
  const absl::StatusOr<NamespacePtr> found = Find(name_space);
  if (!found.ok()) return std::nullopt;
  return (*found)->is_mirrored();
}

bool MemoryTensorStore::Knows(absl::string_view name_space,
                              const Caller& caller, const CallId& id) const {
  const absl::StatusOr<NamespacePtr> found = Find(name_space);
  if (!found.ok()) return false;
  const absl::StatusOr<bool> knows = (*found)->calls().Knows(caller, id);
  // An error is the answer to that call, too.
  return !knows.ok() || *knows;
}

}  // namespace tensorkv
