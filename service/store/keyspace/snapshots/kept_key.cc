#include "service/store/keyspace/snapshots/kept_key.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "service/store/counted_buffer.h"
#include "service/store/keyspace/snapshots/open_snapshots.h"

namespace tensorkv {
namespace {

// Counts what OpenSnapshots, the key's queue and the allocator add to a key
// that is kept.
constexpr uint64_t kFormerOverheadBytes = 128 + sizeof(PendingUpdate);

}  // namespace

absl::StatusOr<Tensor> AllocateOnHost(const RefPtr<BudgetAccount>& account,
                                      DType dtype, const Shape& shape) {
  const uint64_t bytes = shape.num_elements() * SizeOf(dtype);
  ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                   AllocateCounted(account, bytes, &HostBuffer::Allocate));
  return Tensor::Unchecked(dtype, shape, std::move(buffer));
}

KeptKey::KeptKey(const StoredKey& key, const RefPtr<BudgetAccount>& account)
    : step_history_(key.rounds ? key.rounds->step_history()
                               : SnapshotHistory<RoundSteps>()),
      steps_(key.rounds ? key.rounds->Steps() : RoundSteps()) {
  snapshot_.key = std::string(key.name());
  if (key.contributions()) {
    snapshot_.contributions = key.contributions()->ToSnapshot();
  }
  // Needed if the key goes before the updates ahead have ended.
  if (key.rounds) snapshot_.rounds = key.rounds->Remembered();
  overhead_ = *Reservation::Create(account, OverheadBytes());  // never fails
}

// Whoever contributed to rounds is counted with these.
uint64_t KeptKey::OverheadBytes() const {
  uint64_t late_bytes = 0;
  for (const AppliedRound& round : snapshot_.rounds) {
    late_bytes += round.late.size() * sizeof(LateContributor);
  }
  uint64_t step_bytes = steps_.unapplied.size() * sizeof(Step);
  step_history_.ForEach([&step_bytes](const RoundSteps& former) {
    step_bytes += sizeof(uint64_t) + sizeof(RoundSteps) +
                  former.unapplied.size() * sizeof(Step);
  });
  return sizeof(KeptKey) + kFormerOverheadBytes + step_bytes +
         snapshot_.key.size() +
         snapshot_.contributions.size() * sizeof(ContributionSnapshot) +
         snapshot_.rounds.size() * sizeof(AppliedRound) + late_bytes;
}

void KeptKey::TakeRule(const StoredKey& key) {
  if (std::exchange(has_rule_, true)) return;
  rule_ = key.rule;
  rule_state_ = key.rule_state;
  snapshot_.update_count = key.update_count;
}

void KeptKey::TakeValue(StoredKey& key) {
  TakeRule(key);
  key.value_is_kept = true;
  if (rule_state_) {
    has_states_ = !rule_state_->states_are_new;
    has_master_ = rule_state_->master && !rule_state_->master_is_new;
  }
  snapshot_.value = key.ToTensor();
  snapshot_.version = key.version;
  if (key.rounds) return TakeRounds(*key.rounds);
  // The key has gone, and what had closed by then is in its value.
  for (AppliedRound& round : snapshot_.rounds) {
    if (round.version == 0) round.version = key.version;
  }
}

void KeptKey::TakeRounds(const Rounds& rounds) {
  std::vector<AppliedRound>& applied = snapshot_.rounds;
  applied = rounds.Remembered();
  std::erase_if(applied,
                [](const AppliedRound& round) { return round.version == 0; });
  last_applied_ = rounds.Steps().last_applied;
}

uint64_t KeptKey::bytes_to_copy() const {
  if (!rule_state_) return 0;
  uint64_t bytes = 0;
  if (has_master_) bytes += rule_state_->master->size_bytes();
  if (!has_states_) return bytes;
  for (const RefPtr<Buffer>& state : rule_state_->states) {
    bytes += state->size_bytes();
  }
  return bytes;
}

absl::Status KeptKey::ForEachState(Visit visit) const {
  if (!rule_state_) return absl::OkStatus();
  const DType dtype = snapshot_.value.dtype();
  const Shape shape = snapshot_.value.shape();
  const auto& states = rule_state_->states;
  for (size_t i = 0; i < states.size() && has_states_; ++i) {
    const StateSpec& spec = rule_->states()[i];
    RETURN_IF_ERROR(visit(spec.name, StateSpec::DTypeFor(dtype),
                          spec.ShapeFor(shape), states[i]));
  }
  if (!has_master_) return absl::OkStatus();
  return visit(kSavedMaster, DType::kF32, shape, rule_state_->master);
}

absl::Status KeptKey::AddCopies(const RefPtr<BudgetAccount>& account,
                                std::vector<MemoryCopy>& copies) {
  return ForEachState([&](absl::string_view name, DType dtype,
                          const Shape& shape, const RefPtr<Buffer>& state) {
    return AddCopy(account, name, dtype, shape, *state, copies);
  });
}

void KeptKey::TakeRemoved(StoredKey& key) {
  TakeValue(key);
  has_states_on_device_ = true;
  ForEachState([this](absl::string_view name, DType dtype, const Shape& shape,
                      const RefPtr<Buffer>& state) {
    snapshot_.states.push_back(
        {.name = std::string(name),
         .tensor = Tensor::Unchecked(dtype, shape, state)});
    return absl::OkStatus();
  }).IgnoreError();  // nothing fails
  SetReady(absl::OkStatus());
}

absl::Status KeptKey::AddCopy(const RefPtr<BudgetAccount>& account,
                              absl::string_view name, DType dtype,
                              const Shape& shape, const Buffer& from,
                              std::vector<MemoryCopy>& copies) {
  StateSnapshot added = {.name = std::string(name)};
  ASSIGN_OR_RETURN(added.tensor, AllocateOnHost(account, dtype, shape));
  copies.push_back({from.data(), added.tensor.mutable_data(),
                    static_cast<size_t>(added.tensor.size_bytes())});
  snapshot_.states.push_back(std::move(added));
  return absl::OkStatus();
}

KeySnapshot KeptKey::At(uint64_t revision) const {
  KeySnapshot snapshot = snapshot_;
  const RoundSteps& steps = step_history_.At(revision, steps_);
  // Rounds that all have skipped count as applied when they close.
  std::erase_if(snapshot.rounds, [&steps](const AppliedRound& round) {
    return round.step > steps.last_closed;
  });
  // Nor are late contributions there that others have taken.
  const Step last = snapshot.rounds.empty() ? 0 : snapshot.rounds.back().step;
  for (AppliedRound& round : snapshot.rounds) {
    std::erase_if(round.late, [last](const LateContributor& each) {
      return each.taken_by > last;
    });
  }
  snapshot.first_unsaved = steps.first_unclosed;
  // Those that had closed and are not in the value have failed since, whether
  // or not anybody must push them again by now.
  const auto failed = std::upper_bound(steps.unapplied.begin(),
                                       steps.unapplied.end(), last_applied_);
  if (failed != steps.unapplied.end()) {
    snapshot.first_unsaved =
        std::min({snapshot.first_unsaved, *failed, steps.first_late});
  }
  return snapshot;
}

// Copies nothing if this alone has the key: then all snapshots that wanted it
// have ended.
void KeyCopy::AddCopies(std::vector<MemoryCopy>&,
                        std::vector<MemoryCopy>& downloads) {
  if (status_.ok() && !kept_->IsUnique()) {
    const size_t num_downloads = downloads.size();
    status_ = memory_.CheckRetained({.host = kept_->bytes_to_copy()});
    if (status_.ok()) {
      status_ = kept_->AddCopies(memory_.host().retained, downloads);
    }
    if (!status_.ok()) downloads.resize(num_downloads);
  }
  copied_ = kept_->ReleaseStates();
}

void KeyCopy::End(StoredKey&, const absl::Status& status, const UpdateRule&) {
  kept_->SetReady(status);
  snapshots_.changed().notify_all();
}

}  // namespace tensorkv
