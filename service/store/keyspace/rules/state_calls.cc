// SetState and GetState: states are copied in an access of each key between its
// updates, which the calls wait for on no thread.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/pull/pull_cast.h"
#include "service/store/keyspace/push/staged_tensors.h"
#include "service/store/keyspace/rules/state_access.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/updates/update_runner.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

std::string Subject(absl::string_view key, absl::string_view state) {
  return absl::StrCat("state ", Quoted(state), " of key ", Quoted(key));
}

// Checks what the entries of both calls have in common.
template <typename Request>
absl::Status CheckNames(const NamespaceState& state, const Request& request) {
  RETURN_IF_ERROR(state.CheckNumEntries(request.entries.size()));
  for (const auto& entry : request.entries) {
    RETURN_IF_ERROR(CheckKey(entry.key));
    if (!entry.state.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "key ", Quoted(entry.key), ": expected the name of a state, got none"));
  }
  return absl::OkStatus();
}

// Returns whether the fence lets a call about these pass: entries, or a map by
// key. REQUIRES: the mutex is held.
template <typename Entries>
absl::Status CheckFence(const NamespaceState& state, StateAccess::Kind kind,
                        const Entries& entries) {
  return CheckEach(state.Fence(), entries,
                   [&](const KeyFence::View& fence, const auto& entry) {
                     const std::string* key = nullptr;
                     if constexpr (requires { entry.key; }) {
                       key = &entry.key;
                     } else {
                       key = &entry.first;
                     }
                     return kind == StateAccess::Kind::kRead
                                ? fence.CheckRead(state.name, *key)
                                : fence.CheckChange(state.name, *key);
                   });
}

// Returns the state as things are. REQUIRES: the mutex is held.
template <typename Entry>
absl::StatusOr<KeyState> FindState(const NamespaceState& state,
                                   const Entry& entry) {
  const StoredKey* const key = state.keys.Find(entry.key);
  if (key == nullptr) return state.NoSuchKey(entry.key);
  return FindState(*key, entry.state);
}

// A call on its way to accesses of its keys.
class AccessesOfKeys {
 public:
  AccessesOfKeys(NamespaceState& state, StateAccess::Kind kind,
                 ReplyCallback<PushReply> done)
      : state_(state), kind_(kind), call_(MakeRefCounted<QueuedCall>()) {
    call_->done = std::move(done);
  }

  // Has the next entry of the call take part.
  // Errors: ResourceExhausted.
  absl::Status Add(const std::string& key, std::string state, Tensor tensor) {
    auto [update, is_new] = updates_.try_emplace(key);
    PendingUpdate& access = update->second;
    if (kind_ == StateAccess::Kind::kWrite) {
      const RefPtr<BudgetAccount>& account = state_.memory.host().contributions;
      if (!IsCountedBy(*account, tensor)) {
        ASSIGN_OR_RETURN(Reservation uncounted,
                         Reservation::Create(account, tensor.size_bytes()));
        access.tensor_reservation.Merge(std::move(uncounted));
      }
    }
    if (is_new) {
      ASSIGN_OR_RETURN(access.overhead,
                       Reservation::Create(state_.memory.metadata(),
                                           kContributionOverheadBytes));
      access.access = MakeRefCounted<StateAccess>(kind_);
      access.call = call_;
    }
    static_cast<StateAccess&>(*access.access)
        .Add(std::move(state), std::move(tensor));
    access.results.push_back(num_entries_++);
    return absl::OkStatus();
  }

  // The accesses end, and then the call is answered: with the versions that the
  // keys have then.
  void Start() && {
    call_->reply.results.resize(num_entries_);
    call_->num_pending = updates_.size();
    absl::Status missing;
    {
      Transaction transaction(state_);
      missing = state_.gone;
      missing.Update(CheckFence(state_, kind_, updates_));
      for (const auto& [name, update] : updates_) {
        if (missing.ok() && state_.keys.Find(name) == nullptr) {
          missing = state_.NoSuchKey(name);
        }
      }
      if (missing.ok()) {
        for (auto& [name, update] : updates_) {
          Enqueue(transaction, *state_.keys.Find(name), std::move(update));
        }
        if (updates_.empty()) transaction.Send(call_);
      }
    }
    if (!missing.ok()) std::move(call_->done)(missing);
  }

 private:
  NamespaceState& state_;
  const StateAccess::Kind kind_;
  const RefPtr<QueuedCall> call_;
  uint32_t num_entries_ = 0;
  absl::flat_hash_map<std::string, PendingUpdate> updates_;
};

// Returns the reply that is to be filled, with memory on the host that is
// counted as values.
absl::StatusOr<GetStateReply> MakeReply(NamespaceState& state,
                                        const GetStateRequest& request,
                                        const CallContext& context) {
  GetStateReply reply;
  {
    MutexLock lock(&state.mutex);
    RETURN_IF_ERROR(state.CheckAndRenew(request.worker));
    RETURN_IF_ERROR(
        CheckFence(state, StateAccess::Kind::kRead, request.entries));
    for (const GetStateEntry& entry : request.entries) {
      ASSIGN_OR_RETURN(const KeyState found, FindState(state, entry));
      ASSIGN_OR_RETURN(reply.values.emplace_back().tensor,
                       Tensor::WithoutData(found.dtype, found.shape));
    }
  }
  RETURN_IF_ERROR(CheckReplyBytes(reply, context.max_reply_bytes));
  std::vector<Tensor*> tensors;
  for (Value& value : reply.values) tensors.push_back(&value.tensor);
  RETURN_IF_ERROR(
      state.tensor_placement->Stage(state.memory.host().values, tensors));
  return reply;
}

// Errors: InvalidArgument, if rules could not compute with a number of a key.
absl::Status CheckNumbers(const SetStateRequest& request) {
  constexpr uint64_t kMost = uint64_t{1} << 53;  // exact in a double
  for (const SetStateEntry& entry : request.entries) {
    if (entry.tensor.dtype() != DType::kU64) continue;
    const uint64_t count = entry.tensor.elements<uint64_t>()[0];
    if (count <= kMost) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(Subject(entry.key, entry.state), ": expected at most ",
                     kMost, ", got ", count));
  }
  return absl::OkStatus();
}

// Checks the fields that can be checked without looking at keys.
absl::Status CheckFields(const NamespaceState& state,
                         const SetStateRequest& request) {
  RETURN_IF_ERROR(CheckNames(state, request));
  absl::flat_hash_set<std::pair<absl::string_view, absl::string_view>> seen;
  for (const SetStateEntry& entry : request.entries) {
    if (seen.insert({entry.key, entry.state}).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(Subject(entry.key, entry.state),
                     ": expected once in a SetState, got twice"));
  }
  return absl::OkStatus();
}

// Checks that the states are there, and are like those in the request.
absl::Status CheckStates(const NamespaceState& state,
                         const SetStateRequest& request) {
  MutexLock lock(&state.mutex);
  RETURN_IF_ERROR(
      CheckFence(state, StateAccess::Kind::kWrite, request.entries));
  for (const SetStateEntry& entry : request.entries) {
    ASSIGN_OR_RETURN(const KeyState found, FindState(state, entry));
    const Tensor& tensor = entry.tensor;
    if (tensor.dtype() == found.dtype && tensor.shape() == found.shape) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        Subject(entry.key, entry.state), ": expected ",
        Description(found.dtype, found.shape), ", got ", tensor.Description()));
  }
  return absl::OkStatus();
}

absl::Status CheckAll(const NamespaceState& state,
                      const SetStateRequest& request) {
  RETURN_IF_ERROR(CheckFields(state, request));
  RETURN_IF_ERROR(CheckStates(state, request));
  return CheckNumbers(request);
}

}  // namespace

void Namespace::GetState(GetStateRequest request, const CallContext& context,
                         ReplyCallback<GetStateReply> done) {
  absl::Status status = CheckNames(*state_, request);
  if (!status.ok()) return std::move(done)(std::move(status));
  absl::StatusOr<GetStateReply> made = MakeReply(*state_, request, context);
  if (!made.ok()) return std::move(done)(made.status());
  const std::vector<Value> values = made->values;
  // Answers with `made`, whose memory the accesses fill, or is destroyed with
  // it.
  const auto shared_done =
      std::make_shared<ReplyCallback<GetStateReply>>(std::move(done));
  AccessesOfKeys accesses(
      *state_, StateAccess::Kind::kRead,
      [reply = *std::move(made),
       shared_done](absl::StatusOr<PushReply> versions) mutable {
        if (!versions.ok())
          return std::invoke(std::move(*shared_done), versions.status());
        for (size_t i = 0; i < reply.values.size(); ++i) {
          reply.values[i].version = versions->results[i].version;
        }
        std::invoke(std::move(*shared_done), std::move(reply));
      });
  for (size_t i = 0; i < values.size(); ++i) {
    GetStateEntry& entry = request.entries[i];
    status = accesses.Add(entry.key, std::move(entry.state), values[i].tensor);
    if (!status.ok()) return std::move(*shared_done)(std::move(status));
  }
  std::move(accesses).Start();
}

void Namespace::SetState(SetStateRequest request, CallContext,
                         ReplyCallback<SetStateReply> done) {
  absl::Status status = CheckAll(*state_, request);
  if (!status.ok()) return std::move(done)(std::move(status));
  const auto shared_done =
      std::make_shared<ReplyCallback<SetStateReply>>(std::move(done));
  AccessesOfKeys accesses(
      *state_, StateAccess::Kind::kWrite,
      [shared_done](absl::StatusOr<PushReply> versions) {
        if (!versions.ok())
          return std::invoke(std::move(*shared_done), versions.status());
        SetStateReply reply;
        for (const PushResult& result : versions->results) {
          reply.versions.push_back(result.version);
        }
        std::invoke(std::move(*shared_done), std::move(reply));
      });
  for (SetStateEntry& entry : request.entries) {
    status = accesses.Add(entry.key, std::move(entry.state),
                          std::move(entry.tensor));
    if (!status.ok()) return std::move(*shared_done)(std::move(status));
  }
  std::move(accesses).Start();
}

absl::Status Namespace::CheckSetState(const SetStateRequest& request,
                                      const Caller& caller) const {
  RETURN_IF_ERROR(CheckFields(*state_, request));
  return state_->CheckHeadroomUnlessRepeat(
      caller, request.call_id,
      BytesToStage(state_->tensor_placement->sharing(), request),
      [&]() -> absl::StatusOr<BytesNeeded> {
        RETURN_IF_ERROR(CheckStates(*state_, request));
        return BytesNeeded();
      });
}

}  // namespace tensorkv
