// The store's part in moves of partitions.

#include "service/store/partition_moves.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "contract/placement.h"
#include "service/store/memory_tensor_store.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// How often a move looks whether rounds have closed.
constexpr absl::Duration kLookAgain = absl::Milliseconds(10);

// Whether a key is in one of the partitions.
class IsIn {
 public:
  explicit IsIn(const PartitionSet& set) : members_(set.num_partitions) {
    for (const uint32_t each : set.partitions) members_[each] = true;
  }
  bool operator()(absl::string_view name_space, absl::string_view key) const {
    return members_[PartitionOf(name_space, key,
                                static_cast<uint32_t>(members_.size()))];
  }

 private:
  std::vector<bool> members_;
};

}  // namespace

absl::Status MemoryTensorStore::Hold(const PartitionSet& partitions,
                                     absl::Duration patience) {
  gate_.Begin(partitions);
  for (const NamespacePtr& each : All()) each->HoldKeys();
  gate_.HoldAll();
  const absl::Time end = absl::Now() + patience;
  for (const std::string& name : Names()) {
    const absl::StatusOr<NamespacePtr> found = Find(name);
    while (found.ok() && !(*found)->HoldKeysIfIdle()) {
      if (absl::Now() >= end) {
        return absl::DeadlineExceededError(
            absl::StrCat("namespace ", Quoted(name),
                         ": rounds of keys that are to move do not close"));
      }
      absl::SleepFor(kLookAgain);
    }
  }
  return absl::OkStatus();
}

absl::Status MemoryTensorStore::TakeSnapshotOfHeld(SnapshotSink& sink) {
  for (const std::string& name : Names()) {
    const absl::StatusOr<NamespacePtr> found = Find(name);
    // It was deleted meanwhile.
    if (!found.ok()) continue;
    RETURN_IF_ERROR((*found)->TakeSnapshotOfHeld(sink));
  }
  return absl::OkStatus();
}

void MemoryTensorStore::Close() {
  gate_.Close();
  for (const NamespacePtr& each : All()) each->WakeForGate();
}

void MemoryTensorStore::Release() { gate_.Release(); }

void MemoryTensorStore::DropKeys(
    absl::FunctionRef<bool(absl::string_view, absl::string_view)> chosen) {
  for (const auto& name : Names()) {
    const absl::StatusOr<NamespacePtr> found = Find(name);
    if (!found.ok()) continue;
    (*found)->DropKeys(
        [&](absl::string_view key) { return chosen(name, key); });
  }
}

void MemoryTensorStore::Leave() {
  const auto held = gate_.view();
  gate_.Leave();
  if (held == nullptr) return;
  DropKeys([&](absl::string_view name_space, absl::string_view key) {
    return held->Holds(name_space, key);
  });
}

class MemoryTensorStore::StoreAdoption final : public Restoration {
 public:
  explicit StoreAdoption(MemoryTensorStore& store) : store_(store) {}

  absl::Status Begin(const NamespaceSnapshot& name_space) override {
    if (name_space.config.mode == Mode::kBounded) {
      return absl::UnimplementedError(
          absl::StrCat("namespace ", Quoted(name_space.name),
                       ": MODE_BOUNDED is not for several servers"));
    }
    absl::StatusOr<NamespacePtr> found = store_.Find(name_space.name);
    if (!found.ok()) {
      RETURN_IF_ERROR(Create(name_space));
      found = store_.Find(name_space.name);
      RETURN_IF_ERROR(found.status());
    }
    last_ = *std::move(found);
    return last_->Adopt(name_space);
  }

  absl::Status Allocate(absl::Span<Tensor* const> tensors) override {
    return last_ != nullptr ? last_->Allocate(tensors) : NoNamespaceYet();
  }

  absl::Status Add(std::vector<KeySnapshot> keys) override {
    return last_ != nullptr ? last_->RestoreKeys(std::move(keys))
                            : NoNamespaceYet();
  }

  absl::Status Commit() override { return absl::OkStatus(); }

 private:
  static absl::Status NoNamespaceYet() {
    return absl::FailedPreconditionError("expected a namespace before keys");
  }

  // Somebody else may create it at the same time.
  absl::Status Create(const NamespaceSnapshot& name_space) {
    const auto restoration = store_.StartRestoration(OnExisting::kFail);
    RETURN_IF_ERROR(restoration->Begin(name_space));
    const absl::Status status = restoration->Commit();
    return absl::IsAlreadyExists(status) ? absl::OkStatus() : status;
  }

  MemoryTensorStore& store_;
  NamespacePtr last_;
};

std::unique_ptr<Restoration> MemoryTensorStore::StartAdoption(
    const PartitionSet& partitions) {
  Discard(partitions);
  gate_.Open(partitions);
  return std::make_unique<StoreAdoption>(*this);
}

void MemoryTensorStore::Discard(const PartitionSet& partitions) {
  DropKeys(IsIn(partitions));
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
