// Init and Delete: what makes keys, and takes them out of a namespace.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "contract/slices.h"
#include "service/store/keyspace/key_creation.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/pull/pull_call.h"
#include "service/store/keyspace/push/staged_tensors.h"
#include "service/store/keyspace/rounds/round_endings.h"
#include "service/store/keyspace/rules/rule_changes.h"
#include "service/store/keyspace/snapshots/snapshot_copies.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"
#include "service/store/round_exchange.h"

namespace tensorkv {
namespace {

// Bounds how often an Init finds the rules of its keys while others change
// them, before it waits for the end of the change.
constexpr int kMaxAttemptsOfChangingRules = 3;

uint64_t SizeOfTensors(const InitRequest& request) {
  uint64_t bytes = 0;
  for (const InitEntry& entry : request.entries) {
    bytes = SumOfBytes(bytes, entry.tensor.size_bytes());
  }
  return bytes;
}

// Returns the hashes of the names of all entries, for what is done while others
// wait.
std::vector<size_t> HashesOf(const InitRequest& request) {
  std::vector<size_t> hashes;
  hashes.reserve(request.entries.size());
  for (const InitEntry& entry : request.entries) {
    hashes.push_back(KeyTable::HashOf(entry.key));
  }
  return hashes;
}

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
    const std::vector<size_t>& hashes) {
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

// Returns how many bytes the value takes of the device, besides memory that the
// tensor has, or that staging will give it.
uint64_t BytesOfNewValue(const TensorPlacement& tensor_placement,
                         const Tensor& tensor) {
  return tensor_placement.CanKeep(tensor) ? 0 : tensor.size_bytes();
}

absl::Status WasReplaced(absl::string_view key) {
  return WithReason(
      absl::AbortedError(absl::StrCat(
          "key ", Quoted(key), " was replaced while its round was open")),
      Reason::kKeyReplaced, {{"key", key}});
}

// Returns whether an Init would wait for rules_lock.
bool MustWaitForRules(const NamespaceState& state) {
  MutexLock lock(&state.mutex);
  return state.new_keys_wait;
}

// Checks that the fields of an Init are right, whatever the store has.
absl::Status CheckFields(const NamespaceState& state,
                         const InitRequest& request) {
  RETURN_IF_ERROR(state.CheckNumEntries(request.entries.size()));
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

// Returns the bytes that the Init needs, as things are. Errors: those of Init.
absl::StatusOr<BytesNeeded> BytesToInit(const NamespaceState& state,
                                        const InitRequest& request) {
  const std::vector<size_t> hashes = HashesOf(request);
  std::vector<bool> wanted;
  std::shared_ptr<const RuleBindings> bindings;
  {
    MutexLock lock(&state.mutex);
    RETURN_IF_ERROR(CheckFence(state, request));
    ASSIGN_OR_RETURN(wanted, EntriesToCreate(state, request, hashes));
    bindings = state.bindings;
  }
  std::vector<absl::string_view> names;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) names.push_back(request.entries[i].key);
  }
  // A search that takes long is left to the call itself.
  if (names.size() * bindings->num_patterns() > kMaxMatchesInline)
    names.clear();
  ASSIGN_OR_RETURN(const std::vector<const SharedRule*> rules,
                   bindings->Find(names, [] { return absl::OkStatus(); }));
  BytesNeeded bytes;
  auto next_rule = rules.begin();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const InitEntry& entry = request.entries[i];
    if (!wanted[i]) continue;
    RETURN_IF_ERROR(
        state.mode->CheckAllowsDType(entry.key, entry.tensor.dtype()));
    bytes.device = SumOfBytes(
        bytes.device, BytesOfNewValue(*state.tensor_placement, entry.tensor));
    if (next_rule != rules.end()) {
      const UpdateRule& rule = ***next_rule++;
      RETURN_IF_ERROR(CheckRule(entry.key, entry.tensor.dtype(), rule));
      bytes.device = SumOfBytes(bytes.device, StateBytesOf(entry.tensor, rule));
    }
    bytes.host += KeyOverheadBytes(entry.key);
  }
  return bytes;
}

// Keys that have gone, with the last versions that they may have had.
using GoneKeys = std::vector<std::pair<std::string, Version>>;

// REQUIRES: the mutex is not held.
void TellExchange(const NamespaceState& state, const GoneKeys& gone) {
  if (!state.config.mirrored) return;
  for (const auto& [key, version] : gone) {
    state.environment.exchange->Remove(state.name, key, version);
  }
}

// One Init on its way. Used by one thread.
//
// It makes the missing keys without the mutex, as matching patterns and copying
// elements take time, and then inserts them in one transaction, unless rules or
// other keys have changed meanwhile: then it makes what is missing yet.
class KeyCreation {
 public:
  // Says where the keys are from: a call, a snapshot, or, of partitions that
  // the fence keeps calls out of, another server.
  enum class Source { kCall, kSnapshot, kServer };

  // `made` is told of keys as CreateKeys says.
  KeyCreation(NamespaceState& state, InitRequest request, Source source,
              const CallContext& context, MadeKey made)
      : transaction_(state, std::defer_lock,
                     source == Source::kCall ? Transaction::Thread::kCaller
                                             : Transaction::Thread::kOwn),
        state_(state),
        request_(std::move(request)),
        source_(source),
        hashes_(HashesOf(request_)),
        context_(context),
        made_(made),
        keys_(request_.entries.size()) {}

  absl::StatusOr<InitReply> Run();

 private:
  // Returns nothing if it must be tried again.
  absl::StatusOr<std::optional<InitReply>> Try();
  // Makes the keys that are `wanted` and missing; gives all keys the rules of
  // `bindings`, with their states.
  absl::Status MakeKeys(const std::vector<bool>& wanted,
                        const RuleBindings& bindings);
  // Finds the rules of all keys.
  absl::Status FindRules(const RuleBindings& bindings);
  absl::Status MakeStates();
  // Gives new keys their values, whose memory may be taken out of the request.
  absl::Status MakeValues(absl::Span<const KeyPtr> keys);
  // Returns the tensor's buffer, which is counted as a value from now on.
  RefPtr<Buffer> TakeAsValue(Tensor& tensor);
  // Returns whether there is a key for each entry that is wanted.
  bool Covers(const std::vector<bool>& wanted) const;

  // REQUIRES for these: the mutex is held.
  absl::StatusOr<std::vector<bool>> Wanted() const;
  absl::StatusOr<std::optional<InitReply>> Insert(const RuleBindings& bindings);
  Version Replace(StoredKey* existing, size_t entry);
  absl::StatusOr<InitReply> InsertKeys(const std::vector<bool>& wanted);

  Transaction transaction_;
  NamespaceState& state_;
  InitRequest request_;
  const Source source_;
  const std::vector<size_t> hashes_;
  const CallContext& context_;
  const MadeKey made_;
  // The key of each entry; what one attempt has made, the next one keeps.
  std::vector<KeyPtr> keys_;
  GoneKeys replaced_;
};

absl::StatusOr<InitReply> KeyCreation::Run() {
  RETURN_IF_ERROR(CheckFields(state_, request_));
  LongLock::Holder rules_stay;
  for (int attempt = 0;; ++attempt) {
    // Rules may change faster than those of all the keys can be found.
    if (attempt == kMaxAttemptsOfChangingRules) {
      ASSIGN_OR_RETURN(rules_stay, state_.rules_lock.Acquire(
                                       context_, *state_.environment.alarms));
    }
    ASSIGN_OR_RETURN(std::optional<InitReply> reply, Try());
    if (reply) return *std::move(reply);
  }
}

absl::StatusOr<std::optional<InitReply>> KeyCreation::Try() {
  std::vector<bool> wanted;
  std::shared_ptr<const RuleBindings> bindings;
  {
    MutexLock lock(&state_.mutex);
    ASSIGN_OR_RETURN(wanted, Wanted());
    bindings = state_.bindings;
  }
  RETURN_IF_ERROR(MakeKeys(wanted, *bindings));
  transaction_.Lock();
  absl::StatusOr<std::optional<InitReply>> reply = Insert(*bindings);
  transaction_.Unlock();
  TellExchange(state_, replaced_);
  return reply;
}

absl::StatusOr<std::vector<bool>> KeyCreation::Wanted() const {
  if (source_ != Source::kServer) {
    RETURN_IF_ERROR(CheckFence(state_, request_));
  }
  ASSIGN_OR_RETURN(std::vector<bool> wanted,
                   EntriesToCreate(state_, request_, hashes_));
  if (source_ == Source::kCall) {
    RETURN_IF_ERROR(CheckNoSlices(state_, request_, wanted));
  }
  return wanted;
}

absl::StatusOr<std::optional<InitReply>> KeyCreation::Insert(
    const RuleBindings& bindings) {
  RETURN_IF_ERROR(state_.gone);
  ASSIGN_OR_RETURN(const std::vector<bool> wanted, Wanted());
  // The rules have changed, or are about to, or a key that was to be kept was
  // deleted.
  if (&bindings != state_.bindings.get() || state_.new_keys_wait ||
      !Covers(wanted)) {
    return std::nullopt;
  }
  return InsertKeys(wanted);
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
    RETURN_IF_ERROR(state_.mode->CheckAllowsDType(key->name(), key->dtype()));
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
    if (wanted[i]) status.Update(made_(transaction_, i, *keys_[i]));
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
    RemoveKey(transaction_, *existing);
  } else {
    key->version = state_.version_floor + 1;
  }
  key->revision = transaction_.revision();
  state_.keys.Insert(key, hashes_[entry]);
  if (state_.keys_made) state_.keys_made->push_back(key);
  transaction_.MarkChanged();
  return key->version;
}

absl::Status NothingMore(Transaction&, size_t, StoredKey&) {
  return absl::OkStatus();
}

}  // namespace

absl::Status CreateKeys(NamespaceState& state, InitRequest request,
                        bool have_arrived, MadeKey made) {
  using Source = KeyCreation::Source;
  const CallContext context;
  return KeyCreation(state, std::move(request),
                     have_arrived ? Source::kServer : Source::kSnapshot,
                     context, made)
      .Run()
      .status();
}

void RemoveKey(Transaction& transaction, StoredKey& key) {
  NamespaceState& state = transaction.state();
  KeepBeforeRemoval(transaction, key);
  if (state.moving) state.moving->Record(key.name());
  KeyPtr removed = state.keys.Erase(key.name());
  removed->Retire(state.restored_versions);
  RemoveRounds(transaction, *removed);
  transaction.Drop(std::move(removed));
}

void Namespace::Init(InitRequest request, CallContext context,
                     ReplyCallback<InitReply> done) {
  const std::shared_ptr<const RuleBindings> bindings = state_->Bindings();
  const size_t num_patterns =
      bindings->num_patterns() + bindings->multipliers.num_patterns();
  const bool takes_long =
      SizeOfTensors(request) > kMaxBytesInline ||
      request.entries.size() * num_patterns > kMaxMatchesInline ||
      MustWaitForRules(*state_);
  TaskPool::Task init = [state = state_, request = std::move(request),
                         context = std::move(context),
                         done = std::move(done)]() mutable {
    // In two steps: what was not taken of the request goes before the
    // caller hears of the end.
    absl::StatusOr<InitReply> reply =
        KeyCreation(*state, std::move(request), KeyCreation::Source::kCall,
                    context, &NothingMore)
            .Run();
    std::move(done)(std::move(reply));
  };
  if (!takes_long || !state_->Submit(std::move(init))) std::move(init)();
}

absl::Status Namespace::CheckInit(const InitRequest& request,
                                  const Caller& caller) const {
  RETURN_IF_ERROR(CheckFields(*state_, request));
  return state_->CheckHeadroomUnlessRepeat(
      caller, request.call_id,
      BytesToStage(state_->tensor_placement->sharing(), request),
      [&] { return BytesToInit(*state_, request); });
}

absl::StatusOr<DeleteReply> Namespace::Delete(const DeleteRequest& request) {
  NamespaceState& state = *state_;
  RETURN_IF_ERROR(state.CheckNumEntries(request.keys_size()));
  std::vector<size_t> hashes;
  hashes.reserve(request.keys_size());
  for (const std::string& key : request.keys()) {
    RETURN_IF_ERROR(CheckKey(key));
    hashes.push_back(KeyTable::HashOf(key));
  }
  Transaction transaction(state);
  RETURN_IF_ERROR(state.gone);
  RETURN_IF_ERROR(
      CheckEach(state.Fence(), request.keys(),
                [&](const KeyFence::View& fence, const std::string& key) {
                  return fence.CheckChange(state.name, key);
                }));
  // Calls may name a hundred thousand keys, of which hardly any exists.
  std::vector<size_t> found;
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (state.keys.Find(request.keys(i), hashes[i]) != nullptr) {
      found.push_back(i);
    } else if (!request.allow_missing()) {
      return state.NoSuchKey(request.keys(i));
    }
  }
  uint64_t num_deleted = 0;
  GoneKeys gone;
  for (const size_t i : found) {
    const std::string& key = request.keys(i);
    StoredKey* const existing = state.keys.Find(key, hashes[i]);
    if (existing == nullptr) continue;  // it was named before
    EndPullsOf(transaction, *existing);
    gone.emplace_back(key, state.LastVersionOf(*existing));
    state.version_floor = std::max(state.version_floor, gone.back().second);
    RemoveKey(transaction, *existing);
    transaction.MarkChanged();
    ++num_deleted;
  }
  for (const size_t i : found) Wake(transaction, request.keys(i));
  transaction.Unlock();
  TellExchange(state, gone);
  DeleteReply reply;
  reply.set_num_deleted(num_deleted);
  return reply;
}

}  // namespace tensorkv
