#include "service/store/keyspace/moves/moving_keys.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"

namespace tensorkv {
namespace {

// A name that is recorded takes about so much beside its own bytes.
constexpr uint64_t kNameOverheadBytes = 64;

}  // namespace

absl::Status MovingKeys::BeginStage(Stage stage, uint64_t revision,
                                    std::shared_ptr<const RuleBindings> rules,
                                    NamespaceSnapshot& snapshot) {
  if (!recording_.ok()) return recording_;
  stage_ = stage;
  is_under_way_ = true;
  snapshot.has_only_changes = rules == rules_;
  sent_ = snapshot.has_only_changes ? begun_ : 0;
  begun_ = revision;
  rules_ = std::move(rules);
  recorded_ = std::exchange(recorded_since_, {});
  return absl::OkStatus();
}

MovingKeys::Recorded MovingKeys::EndStage(bool is_sent) {
  if (std::exchange(is_under_way_, false) && !is_sent) rules_ = nullptr;
  return std::exchange(recorded_, {});
}

bool MovingKeys::HasChanged(StoredKey& key) const {
  if (key.revision > sent_ || recorded_.names.contains(key.name())) return true;
  // A round that is open still is one that nobody is there to close: the
  // receiver gets to know from which step on all is to be made again.
  if (stage_ == Stage::kLast && key.rounds && !key.rounds->is_idle()) {
    return true;
  }
  return key.has_pending() &&
         std::ranges::any_of(key.pending(), [this](const PendingUpdate& each) {
           return each.revision > sent_;
         });
}

void MovingKeys::Record(absl::string_view key) {
  if (!recording_.ok() || !partitions_->Fences(name_space_, key)) return;
  if (recorded_since_.names.contains(key)) return;
  absl::StatusOr<Reservation> overhead =
      Reservation::Create(account_, key.size() + kNameOverheadBytes);
  if (!overhead.ok()) {
    recording_ = overhead.status();
    return;
  }
  recorded_since_.overhead.Merge(*std::move(overhead));
  recorded_since_.names.emplace(key);
}

}  // namespace tensorkv
