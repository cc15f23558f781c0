#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/namespace.h"
#include "service/store/keyspace/staged_tensors.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// How often an Init finds the rules of its keys while others change them.
constexpr int kMaxTurnsOfChangingRules = 3;

// Whether there is a key for each entry that is wanted.
bool Covers(absl::Span<const RefPtr<StoredKey>> keys,
            const std::vector<bool>& wanted) {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (wanted[i] && !keys[i]) return false;
  }
  return true;
}

}  // namespace

void Namespace::Init(InitRequest request, CallContext context,
                     ReplyCallback<InitReply> done) {
  uint64_t bytes = 0;
  for (const InitEntry& entry : request.entries) {
    bytes = SumOfBytes(bytes, entry.tensor.size_bytes());
  }
  const size_t num_matches =
      request.entries.size() * bindings()->num_patterns();
  TaskPool::Task init =
      [self = shared_from_this(), request = std::move(request),
       context = std::move(context), done = std::move(done)]() mutable {
        // In two steps: what was not taken of the request goes before the
        // caller hears of the end.
        absl::StatusOr<InitReply> reply =
            self->InitNow(std::move(request), context);
        std::move(done)(std::move(reply));
      };
  const bool takes_long =
      bytes > kMaxBytesInline || num_matches > kMaxMatchesInline;
  if (!takes_long || !Submit(std::move(init))) std::move(init)();
}

absl::StatusOr<InitReply> Namespace::InitNow(InitRequest request,
                                             const CallContext& context) {
  RETURN_IF_ERROR(CheckFields(request));
  // What one turn has made, the next one keeps.
  std::vector<KeyPtr> keys(request.entries.size());
  Replies replies;
  std::optional<MutexLock> rules_stay;
  for (int turn = 0;; ++turn) {
    // Rules may change faster than those of all the keys can be found.
    if (turn == kMaxTurnsOfChangingRules) rules_stay.emplace(&rules_mutex_);
    ASSIGN_OR_RETURN(std::optional<InitReply> reply,
                     TryInit(request, context, keys, replies));
    if (!reply) continue;
    rules_stay.reset();
    Send(std::move(replies));
    return *std::move(reply);
  }
}

absl::StatusOr<std::optional<InitReply>> Namespace::TryInit(
    InitRequest& request, const CallContext& context, std::vector<KeyPtr>& keys,
    Replies& replies) {
  std::vector<bool> wanted;
  std::shared_ptr<const RuleBindings> bindings;
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(wanted, EntriesToCreate(request));
    bindings = bindings_;
  }
  RETURN_IF_ERROR(MakeKeys(request, context, wanted, *bindings, keys));

  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const std::vector<bool> wanted_now,
                   EntriesToCreate(request));
  // The rules have changed, or a key that was to be kept was deleted.
  if (bindings != bindings_ || !Covers(keys, wanted_now)) return std::nullopt;
  return InsertKeys(request, wanted_now, keys, replies);
}

absl::Status Namespace::CheckIsWanted(const CallContext& context) const {
  if (context.cancellation && context.cancellation->is_cancelled()) {
    return absl::CancelledError("the caller has given up");
  }
  MutexLock lock(&mutex_);
  return no_waits_;
}

absl::Status Namespace::CheckFields(const InitRequest& request) const {
  RETURN_IF_ERROR(CheckNumEntries(request.entries.size()));
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

absl::StatusOr<std::vector<bool>> Namespace::EntriesToCreate(
    const InitRequest& request) const {
  std::vector<bool> wanted(request.entries.size(), true);
  if (request.on_existing == OnExisting::kReplace) return wanted;
  for (size_t i = 0; i < request.entries.size(); ++i) {
    const InitEntry& entry = request.entries[i];
    const StoredKey* key = keys_.Find(entry.key);
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

// All is checked and has its memory before the first element is copied.
absl::Status Namespace::MakeKeys(InitRequest& request,
                                 const CallContext& context,
                                 const std::vector<bool>& wanted,
                                 const RuleBindings& bindings,
                                 std::vector<KeyPtr>& keys) {
  std::vector<KeyPtr> made(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!wanted[i] || keys[i]) continue;
    ASSIGN_OR_RETURN(made[i], MakeKey(request.entries[i]));
    keys[i] = made[i];
  }
  RETURN_IF_ERROR(FindRules(bindings, context, keys));
  PlaceKeys(request, made);
  RETURN_IF_ERROR(MakeStates(keys));
  RETURN_IF_ERROR(MakeValues(request, made));
  return absl::OkStatus();
}

absl::Status Namespace::MakeValues(InitRequest& request,
                                   absl::Span<const KeyPtr> keys) {
  std::vector<KeyPtr> to_fill(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!keys[i]) continue;
    Tensor& tensor = request.entries[i].tensor;
    if (BecomesValue(tensor)) {
      keys[i]->value = TakeAsValue(tensor);
      continue;
    }
    ASSIGN_OR_RETURN(keys[i]->value,
                     AllocateFor(*keys[i], memory_.on(keys[i]->device).values,
                                 tensor.size_bytes()));
    to_fill[i] = keys[i];
  }
  return is_on_host_ ? CopyValues(request, to_fill)
                     : CopyValuesToDevices(request, to_fill);
}

absl::StatusOr<Namespace::KeyPtr> Namespace::MakeKey(const InitEntry& entry) {
  RETURN_IF_ERROR(memory_.metadata()->Reserve(KeyOverheadBytes(entry.key)));
  KeyPtr key =
      StoredKey::Create(entry.key, entry.tensor.dtype(), entry.tensor.shape());
  key->ChargeTo(memory_.metadata());
  return key;
}

bool Namespace::BecomesValue(const Tensor& tensor) const {
  return is_on_host_ &&
         CanBecomeValue(*memory_.host().contributions, tensor.buffer().get(),
                        tensor.size_bytes());
}

RefPtr<Buffer> Namespace::TakeAsValue(Tensor& tensor) {
  RefPtr<Buffer> buffer = tensor.TakeBuffer();
  const MemoryAccounts& host = memory_.host();
  host.values->TakeOver(*host.contributions, buffer->size_bytes());
  const RefPtr<MemoryAccount> before = buffer->ExchangeAccount(host.values);
  return buffer;
}

absl::StatusOr<RefPtr<Buffer>> Namespace::AllocateFor(
    const StoredKey& key, const RefPtr<BudgetAccount>& account,
    uint64_t bytes) {
  ASSIGN_OR_RETURN(Reservation room, Reservation::Create(account, bytes));
  ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                   DeviceOf(key).Allocate(bytes, account));
  room.HandOver();
  return buffer;
}

// The store updates values in place, so it keeps them in memory of its own;
// this is the only copy that Init makes. As a batch of updates, it uses all
// threads.
absl::Status Namespace::CopyValues(const InitRequest& request,
                                   absl::Span<const KeyPtr> keys) {
  static const UpdateRule* const kAssign = new UpdateRule();
  std::vector<TensorView> views(keys.size());
  std::vector<TensorUpdate> copies;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!keys[i]) continue;
    views[i] = request.entries[i].tensor.view();
    TensorUpdate& copy = copies.emplace_back();
    copy.rule = kAssign;
    copy.contributions = absl::MakeConstSpan(&views[i], 1);
    copy.value = {keys[i]->dtype(), views[i].num_elements,
                  keys[i]->value->mutable_data()};
  }
  if (copies.empty()) return absl::OkStatus();
  return (*environment_.devices)[0].Apply(copies);
}

absl::Status Namespace::CopyValuesToDevices(const InitRequest& request,
                                            absl::Span<const KeyPtr> keys) {
  CopiesByDevice copies(environment_.devices->size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!keys[i]) continue;
    copies[keys[i]->device].push_back(
        {request.entries[i].tensor.data(), keys[i]->value->mutable_data(),
         static_cast<size_t>(keys[i]->value_bytes())});
  }
  return environment_.devices->CopyToDevices(copies);
}

void Namespace::PlaceKeys(const InitRequest& request,
                          absl::Span<const KeyPtr> keys) const {
  Placement placement(*environment_.budgets);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!keys[i]) continue;
    const Tensor& tensor = request.entries[i].tensor;
    keys[i]->device = placement.Place(
        SumOfBytes(tensor.size_bytes(), StateBytesOf(tensor, *keys[i]->rule)));
  }
}

absl::Status Namespace::FindRules(const RuleBindings& bindings,
                                  const CallContext& context,
                                  absl::Span<const KeyPtr> keys) const {
  std::vector<absl::string_view> names;
  for (const KeyPtr& key : keys) {
    if (key) names.push_back(key->name());
  }
  ASSIGN_OR_RETURN(
      const std::vector<const SharedRule*> rules,
      bindings.Find(names, [&] { return CheckIsWanted(context); }));
  ASSIGN_OR_RETURN(
      const std::vector<const SharedMultipliers*> multipliers,
      bindings.multipliers.Find(names, [&] { return CheckIsWanted(context); }));
  size_t i = 0;
  for (const KeyPtr& key : keys) {
    if (!key) continue;
    key->rule = *rules[i];
    key->multipliers = *multipliers[i];
    ++i;
    RETURN_IF_ERROR(CheckRule(key->name(), key->dtype(), *key->rule));
  }
  return absl::OkStatus();
}

absl::Status Namespace::CheckRule(absl::string_view key, DType dtype,
                                  const UpdateRule& rule) {
  const absl::Status status = rule.CheckTakes(dtype);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat("key ", Quoted(key), ": ", status.message()));
}

absl::Status Namespace::MakeStates(absl::Span<const KeyPtr> keys) {
  for (const KeyPtr& key : keys) {
    if (!key) continue;
    // Nothing is kept of what an earlier turn made: no update has filled it,
    // and it may be for another rule.
    key->rule_state = nullptr;
    ASSIGN_OR_RETURN(key->rule_state, MakeState(*key, *key->rule));
  }
  return absl::OkStatus();
}

InitReply Namespace::InsertKeys(const InitRequest& request,
                                const std::vector<bool>& wanted,
                                absl::Span<const KeyPtr> keys,
                                Replies& replies) {
  InitReply reply;
  RoundsOfKeys ended;
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::string& name = request.entries[i].key;
    const StoredKey* existing = keys_.Find(name);
    if (!wanted[i]) {
      reply.versions.push_back(existing->version);
      continue;
    }
    if (existing != nullptr) {
      // Above every version that updates under way will report.
      keys[i]->version = existing->version + existing->num_updates_ahead() + 1;
      watches_.Move(existing, keys[i].get());
      RemoveKey(name, ended, replies);
    } else {
      keys[i]->version = version_floor_ + 1;
    }
    ++revision_;
    reply.versions.push_back(keys[i]->version);
    keys_.Insert(keys[i]);
    if (keys_made_) keys_made_->push_back(keys[i]);
  }
  EndPullsOfRounds(
      ended,
      [](absl::string_view key) {
        return WithReason(
            absl::AbortedError(absl::StrCat("key ", Quoted(key),
                                            " was replaced while its round was "
                                            "open")),
            Reason::kKeyReplaced, {{"key", key}});
      },
      replies);
  for (const InitEntry& entry : request.entries) Wake(entry.key, replies);
  return reply;
}

void Namespace::EndPullsOf(const StoredKey& key, Replies& replies) {
  while (KeyWatches::Watch* const watch = watches_.Find(&key)) {
    const WaitingCallPtr call = watch->call->shared_from_this();
    watches_.Remove(watch);
    if (call->is_finished) continue;
    waits_.Remove(call);
    call->Fail(NoSuchKey(key.name()));
    Finish(call, replies);
  }
}

void Namespace::RemoveKey(absl::string_view name, RoundsOfKeys& ended,
                          Replies& replies) {
  KeyPtr key = keys_.Erase(name);
  if (key->rounds) {
    if (key->rounds->num_open() > 0) ended.emplace(name, key->rounds.get());
    rounds_open_ -= key->rounds->num_open();
    rounds_failed_ += key->rounds->num_open();
    key->rounds->ForgiveAll();
    busy_keys_.erase(key.get());
    replies.removed_rounds.push_back(std::move(key->rounds));
  }
  replies.released_keys.push_back(std::move(key));
}

absl::StatusOr<DeleteReply> Namespace::Delete(const DeleteRequest& request) {
  RETURN_IF_ERROR(CheckNumEntries(request.keys.size()));
  for (const std::string& key : request.keys) RETURN_IF_ERROR(CheckKey(key));
  Replies replies;
  DeleteReply reply;
  RoundsOfKeys ended;
  {
    MutexLock lock(&mutex_);
    for (const std::string& key : request.keys) {
      if (!request.allow_missing && keys_.Find(key) == nullptr) {
        return NoSuchKey(key);
      }
    }
    for (const std::string& key : request.keys) {
      StoredKey* const existing = keys_.Find(key);
      if (existing == nullptr) continue;
      EndPullsOf(*existing, replies);
      version_floor_ = std::max(
          version_floor_, existing->version + existing->num_updates_ahead());
      RemoveKey(key, ended, replies);
      ++revision_;
      ++reply.num_deleted;
    }
    EndPullsOfRounds(
        ended, [this](absl::string_view key) { return NoSuchKey(key); },
        replies);
    for (const std::string& key : request.keys) Wake(key, replies);
  }
  Send(std::move(replies));
  return reply;
}

}  // namespace tensorkv
