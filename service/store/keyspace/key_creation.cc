#include "service/store/keyspace/key_creation.h"

#include <algorithm>
#include <memory>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "contract/slices.h"
#include "service/store/keyspace/pull/pull_ends.h"
#include "service/store/keyspace/push/staged_tensors.h"
#include "service/store/keyspace/rules/rule_states.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Bounds how often an Init finds the rules of its keys while others change
// them, before it waits for the end of the change.
constexpr int kMaxAttemptsOfChangingRules = 3;

// Returns whether the fence lets an Init pass. REQUIRES: the mutex is held.
absl::Status CheckFence(const NamespaceState& state,
                        const InitRequest& request) {
  return CheckEach(state.Fence(), request.entries,
                   [&](const KeyFence::View& fence, const InitEntry& entry) {
                     return fence.CheckChange(state.name, entry.key);
                   });
}

// Returns which entries the call must create. REQUIRES: the mutex is held.
// Errors: AlreadyExists, FailedPrecondition.
absl::StatusOr<std::vector<bool>> EntriesToCreate(
    const NamespaceState& state, const InitRequest& request,
    absl::Span<const size_t> hashes) {
  std::vector<bool> wanted(request.entries.size(), true);
  if (request.on_existing == OnExisting::kReplace) return wanted;
  for (size_t i = 0; i < request.entries.size(); ++i) {
    const InitEntry& entry = request.entries[i];
    const StoredKey* key = state.keys.Find(entry.key, hashes[i]);
    if (key == nullptr) continue;
    if (request.on_existing == OnExisting::kFail) {
      return WithReason(absl::AlreadyExistsError(absl::StrCat(
                            "key ", Quoted(entry.key), " exists already")),
                        Reason::kKeyExists, {{"key", entry.key}});
    }
    if (key->dtype() != entry.tensor.dtype() ||
        !key->HasShape(entry.tensor.shape())) {
      return WithReason(absl::FailedPreconditionError(absl::StrCat(
                            "key ", Quoted(entry.key), ": expected ",
                            Description(key->dtype(), key->shape()),
                            " to keep, got ", entry.tensor.Description())),
                        Reason::kExistsDifferently, {{"key", entry.key}});
    }
    wanted[i] = false;
  }
  return wanted;
}

// Checks that the call creates no slice under a guard, which would take the
// norm of each by itself. REQUIRES: the mutex is held.
absl::Status CheckNoSlices(const NamespaceState& state,
                           const InitRequest& request,
                           const std::vector<bool>& wanted) {
  if (!state.is_guarded) return absl::OkStatus();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::string& key = request.entries[i].key;
    if (!wanted[i] || !absl::StartsWith(key, kSliceMark)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "key ", Quoted(WholeKeyOf(key)), ": expected a whole key in namespace ",
        Quoted(state.name), ", which has a gradient guard, got a slice"));
  }
  return absl::OkStatus();
}

absl::Status WasReplaced(absl::string_view key) {
  return WithReason(
      absl::AbortedError(absl::StrCat(
          "key ", Quoted(key), " was replaced while its round was open")),
      Reason::kKeyReplaced, {{"key", key}});
}

}  // namespace

std::vector<size_t> HashesOf(const InitRequest& request) {
  std::vector<size_t> hashes;
  hashes.reserve(request.entries.size());
  for (const InitEntry& entry : request.entries) {
    hashes.push_back(KeyTable::HashOf(entry.key));
  }
  return hashes;
}

absl::Status CheckFields(const NamespaceState& state,
                         const InitRequest& request) {
  RETURN_IF_ERROR(state.CheckNumEntries(request.entries.size()));
  RETURN_IF_ERROR(Publication::Create(request.publish_as).status());
  absl::flat_hash_set<absl::string_view> seen;
  for (const InitEntry& entry : request.entries) {
    RETURN_IF_ERROR(CheckKey(entry.key));
    if (!seen.insert(entry.key).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "key ", Quoted(entry.key), ": expected once in an Init, got twice"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<bool>> EntriesToMake(const NamespaceState& state,
                                                const InitRequest& request,
                                                absl::Span<const size_t> hashes,
                                                KeySource source) {
  if (source != KeySource::kServer) {
    RETURN_IF_ERROR(CheckFence(state, request));
  }
  ASSIGN_OR_RETURN(std::vector<bool> wanted,
                   EntriesToCreate(state, request, hashes));
  if (source == KeySource::kCall) {
    RETURN_IF_ERROR(CheckNoSlices(state, request, wanted));
  }
  return wanted;
}

absl::StatusOr<std::optional<InitReply>> KeyCreation::Run() {
  RETURN_IF_ERROR(CheckFields(state_, request_));
  ASSIGN_OR_RETURN(publication_, Publication::Of(request_));
  for (int i = 0; i < kMaxAttemptsOfChangingRules; ++i) {
    ASSIGN_OR_RETURN(std::optional<InitReply> reply, Try());
    if (reply) return reply;
  }
  return std::nullopt;
}

absl::StatusOr<InitReply> KeyCreation::RunWith(const RulesHold&) {
  for (;;) {
    ASSIGN_OR_RETURN(std::optional<InitReply> reply, Try());
    if (reply) return *std::move(reply);
  }
}

absl::StatusOr<std::optional<InitReply>> KeyCreation::Try() {
  std::vector<bool> wanted;
  std::shared_ptr<const RuleBindings> bindings;
  {
    MutexLock lock(&state_.mutex);
    ASSIGN_OR_RETURN(wanted, EntriesToMake(state_, request_, hashes_, source_));
    bindings = state_.bindings;
  }
  RETURN_IF_ERROR(MakeKeys(wanted, *bindings));
  transaction_.Lock();
  absl::StatusOr<std::optional<InitReply>> reply = Insert(*bindings);
  transaction_.Unlock();
  TellExchange(state_, replaced_);
  return reply;
}

absl::StatusOr<std::optional<InitReply>> KeyCreation::Insert(
    const RuleBindings& bindings) {
  RETURN_IF_ERROR(state_.gone);
  ASSIGN_OR_RETURN(const std::vector<bool> wanted,
                   EntriesToMake(state_, request_, hashes_, source_));
  // The rules have changed, or are about to, or a key that was to be kept was
  // deleted.
  if (&bindings != state_.bindings.get() || state_.new_keys_wait ||
      !Covers(wanted)) {
    return std::nullopt;
  }
  RETURN_IF_ERROR(publication_.Check(transaction_));
  ASSIGN_OR_RETURN(InitReply reply, InsertKeys(wanted));
  reply.published = publication_.Take(transaction_, nullptr);
  return reply;
}

bool KeyCreation::Covers(const std::vector<bool>& wanted) const {
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (wanted[i] && !keys_[i]) return false;
  }
  return true;
}

// All is checked and has its memory before the first element is copied.
absl::Status KeyCreation::MakeKeys(const std::vector<bool>& wanted,
                                   const RuleBindings& bindings) {
  const auto is_missing = [&](size_t i) { return wanted[i] && !keys_[i]; };
  uint64_t overhead = 0;
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (is_missing(i)) overhead += KeyOverheadBytes(request_.entries[i].key);
  }
  ASSIGN_OR_RETURN(Reservation reservation,
                   Reservation::Create(state_.memory.metadata(), overhead));
  std::vector<KeyPtr> made(keys_.size());
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (!is_missing(i)) continue;
    const InitEntry& entry = request_.entries[i];
    made[i] = StoredKey::Create(entry.key, entry.tensor.dtype(),
                                entry.tensor.shape());
    made[i]->ChargeTo(
        reservation.Split(KeyOverheadBytes(entry.key)).HandOver());
    keys_[i] = made[i];
  }
  RETURN_IF_ERROR(FindRules(bindings));
  RETURN_IF_ERROR(MakeStates());
  return MakeValues(made);
}

absl::Status KeyCreation::FindRules(const RuleBindings& bindings) {
  std::vector<absl::string_view> names;
  for (const KeyPtr& key : keys_) {
    if (key) names.push_back(key->name());
  }
  const auto go_on = [this] { return CheckIsWanted(state_, context_); };
  ASSIGN_OR_RETURN(const std::vector<const SharedRule*> rules,
                   bindings.Find(names, go_on));
  ASSIGN_OR_RETURN(const std::vector<const SharedMultipliers*> multipliers,
                   bindings.multipliers.Find(names, go_on));
  size_t i = 0;
  for (const KeyPtr& key : keys_) {
    if (!key) continue;
    key->rule = *rules[i];
    key->multipliers = *multipliers[i];
    ++i;
    RETURN_IF_ERROR(PushMode::CheckAllowsDType(state_.config.aggregation,
                                               key->name(), key->dtype()));
    RETURN_IF_ERROR(CheckRule(key->name(), key->dtype(), *key->rule));
  }
  return absl::OkStatus();
}

absl::Status KeyCreation::MakeStates() {
  for (const KeyPtr& key : keys_) {
    if (!key) continue;
    // Nothing is kept of what an earlier attempt made: no update has filled it,
    // and it may be for another rule.
    key->rule_state = nullptr;
    ASSIGN_OR_RETURN(key->rule_state, MakeState(state_, *key, *key->rule));
  }
  return absl::OkStatus();
}

absl::Status KeyCreation::MakeValues(absl::Span<const KeyPtr> keys) {
  std::vector<KeyPtr> to_fill(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!keys[i]) continue;
    Tensor& tensor = request_.entries[i].tensor;
    if (state_.tensor_placement->CanKeep(tensor)) {
      keys[i]->value = TakeAsValue(tensor);
      continue;
    }
    ASSIGN_OR_RETURN(keys[i]->value,
                     AllocateCounted(state_.memory.device().values,
                                     tensor.size_bytes(), state_.device()));
    to_fill[i] = keys[i];
  }
  return state_.tensor_placement->Fill(request_, to_fill);
}

RefPtr<Buffer> KeyCreation::TakeAsValue(Tensor& tensor) {
  RefPtr<Buffer> buffer = tensor.TakeBuffer();
  const MemoryAccounts& host = state_.memory.host();
  host.values->TakeOver(*host.contributions, buffer->size_bytes());
  const RefPtr<MemoryAccount> before = buffer->ExchangeAccount(host.values);
  return buffer;
}

absl::StatusOr<InitReply> KeyCreation::InsertKeys(
    const std::vector<bool>& wanted) {
  // It was looked for just now.
  const bool none_exists = request_.on_existing == OnExisting::kFail;
  InitReply reply;
  reply.versions.reserve(keys_.size());
  absl::Status status;
  for (size_t i = 0; i < keys_.size(); ++i) {
    StoredKey* const existing =
        none_exists ? nullptr
                    : state_.keys.Find(request_.entries[i].key, hashes_[i]);
    reply.versions.push_back(wanted[i] ? Replace(existing, i)
                                       : existing->version);
    if (!wanted[i]) continue;
    status.Update(made_(transaction_, i, *keys_[i]));
    // What comes from another server is told once it is this one's.
    if (source_ == KeySource::kServer) continue;
    state_.changes.Record(ChangeKind::kValue, keys_[i]->name(),
                          keys_[i]->version, transaction_.revision());
  }
  for (const InitEntry& entry : request_.entries) {
    Wake(transaction_, entry.key);
  }
  RETURN_IF_ERROR(status);
  return reply;
}

Version KeyCreation::Replace(StoredKey* existing, size_t entry) {
  const KeyPtr& key = keys_[entry];
  if (existing != nullptr) {
    replaced_.emplace_back(existing->name(), state_.LastVersionOf(*existing));
    // Above every version that updates under way will report, or that the state
    // had which a restart has lost.
    key->version =
        std::max(state_.LastVersionOf(*existing), state_.restored_versions) + 1;
    EndPullsOfRounds(transaction_, *existing,
                     [&] { return WasReplaced(existing->name()); });
    state_.watches.Move(existing, key.get());
    RemoveKey(transaction_, *existing, Removal::kReplace);
  } else {
    key->version = state_.version_floor + 1;
  }
  key->revision = transaction_.revision();
  state_.keys.Insert(key, hashes_[entry]);
  if (state_.keys_made) state_.keys_made->push_back(key);
  transaction_.MarkChanged();
  return key->version;
}

absl::Status CreateKeys(NamespaceState& state, InitRequest request,
                        bool have_arrived, MadeKey made) {
  KeyCreation creation(state, std::move(request),
                       have_arrived ? KeySource::kServer : KeySource::kSnapshot,
                       {}, made);
  ASSIGN_OR_RETURN(const std::optional<InitReply> reply, creation.Run());
  if (reply) return absl::OkStatus();
  return creation.RunWith(AwaitRules(state)).status();
}

}  // namespace tensorkv
