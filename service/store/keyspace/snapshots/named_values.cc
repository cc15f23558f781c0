#include "service/store/keyspace/snapshots/named_values.h"

#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "service/store/keyspace/snapshots/letting_go.h"
#include "service/store/keyspace/snapshots/named_snapshots.h"
#include "service/store/keyspace/updates/key_access.h"

namespace tensorkv {
namespace {

void TakeFor(NamedSnapshots& named, StoredKey& key, FormerValue& former) {
  if (former.is_wanted) key.value_is_kept = true;
  named.Take(former, key.ToTensor(), key.version);
}

// Takes the value of a key for named snapshots, in the key's queue.
class ValueCapture final : public KeyAccess {
 public:
  // `named` outlives it.
  ValueCapture(FormerValuePtr former, NamedSnapshots* named)
      : former_(std::move(former)), named_(*named) {}

  bool uses_states() const override { return false; }
  void Begin(StoredKey& key) override { TakeFor(named_, key, *former_); }
  uint64_t size_bytes() const override { return 0; }

 private:
  const FormerValuePtr former_;
  NamedSnapshots& named_;
};

}  // namespace

void KeepForNamed(Transaction& transaction, StoredKey& key, uint64_t since,
                  uint64_t more_bytes) {
  const NamespaceState& state = transaction.state();
  NamedSnapshots& named = *state.named;
  NamedSnapshot* owner = named.NewestOf(key.name(), since, key.revision);
  if (owner != nullptr && more_bytes > 0) {
    const BytesNeeded more = {.device = more_bytes};
    MakeRoom(transaction, more);
    owner = named.NewestOf(key.name(), since, key.revision);
    // None can stay that needs what there is no room for.
    while (owner != nullptr && !CheckRoom(state, more).ok()) {
      CloseSnapshot(transaction, *owner, NamedSnapshots::Cause::kRetained);
      owner = named.NewestOf(key.name(), since, key.revision);
    }
  }
  if (owner == nullptr) return;
  // What runs may be a read; a snapshot that is ready does not wait for it.
  const bool is_there = !key.is_updating || since <= state.revisions.told();
  if (is_there &&
      named.TryExtend(key.name(), since, key.revision, key.value.get())) {
    key.value_is_kept = true;
    return;
  }
  const FormerValuePtr former =
      named.Keep(key.name(), since, key.revision, key.value_bytes());
  if (is_there) return TakeFor(named, key, *former);
  named.Await(*former);
  PendingUpdate capture;
  capture.access = MakeRefCounted<ValueCapture>(former, &named);
  key.pending().push_back(std::move(capture));
}

namespace {

// Returns what the snapshot, or the part of one, has of the key; nothing where
// it has no such key.
std::optional<ValueOfSnapshot> FindValue(const NamespaceState& state,
                                         const NamedSnapshot& snapshot,
                                         absl::string_view key) {
  const uint64_t revision = snapshot.revision;
  const StoredKey* const stored = state.keys.Find(key);
  if (stored != nullptr && stored->revision <= revision) {
    return ValueOfSnapshot{stored->version, stored->ToTensor(), revision};
  }
  const FormerValue* const former = state.named->FindFormer(key, revision);
  if (former == nullptr) return std::nullopt;
  return ValueOfSnapshot{former->version, former->value, revision};
}

}  // namespace

bool HasKey(const NamespaceState& state, const NamedSnapshot& snapshot,
            absl::string_view key) {
  const NamedSnapshot* const part = PartOf(snapshot, key);
  return part != nullptr && part->Has(key) &&
         (part->owned == nullptr || part->owned->Has(state.name, key));
}

absl::StatusOr<ValueOfSnapshot> ValueAt(const NamespaceState& state,
                                        const NamedSnapshot& snapshot,
                                        absl::string_view key) {
  if (HasKey(state, snapshot, key)) {
    std::optional<ValueOfSnapshot> value =
        FindValue(state, *PartOf(snapshot, key), key);
    if (value) return *std::move(value);
  }
  const bool is_of_cluster = snapshot.is_share || !snapshot.servers.empty();
  if (const auto fence = is_of_cluster ? nullptr : state.Fence()) {
    RETURN_IF_ERROR(fence->CheckRead(state.name, key));
  }
  return state.NoSuchKey(key);
}

}  // namespace tensorkv
