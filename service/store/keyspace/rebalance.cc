// How keys of a namespace go from one device to another.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/update_runner.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// So much is on two devices at a time, or one key.
constexpr uint64_t kBytesPerStep = 64 << 20;

// What passes through the host at a time, where devices do not read from each
// other.
constexpr uint64_t kRoomBytes = 4 << 20;

uint64_t BytesOf(const StoredKey& key) {
  return key.value_bytes() +
         (key.rule_state ? key.rule_state->size_bytes() : 0);
}

// A key on its way. The one that takes its place is another object: that of a
// key does not change its device.
struct KeyMove {
  KeyPtr key;
  DeviceIndex to = 0;
  uint64_t bytes = 0;
  KeyPtr moved;
  // Whether its updates wait for it.
  bool is_held = false;
  absl::Status status;
};

// Whether nothing goes on at the key that its contributions, or whoever waits
// for it, would have to follow. REQUIRES: the mutex is held.
bool IsIdle(const NamespaceState& state, const StoredKey& key) {
  return state.keys.Find(key.name()) == &key && !key.has_pending() &&
         key.num_pulls_pinning == 0 &&
         !state.busy_keys.contains(const_cast<StoredKey*>(&key));
}

// The keys that are to move, the largest first: each to the device of whose
// budget most is free, if its own has less than that afterwards. There are at
// most so many.
std::vector<KeyMove> ChooseMoves(const NamespaceState& state, size_t max_keys) {
  std::vector<KeyMove> keys;
  keys.reserve(max_keys);
  std::string walked;
  bool has_more = true;
  while (has_more && keys.size() < max_keys) {
    MutexLock lock(&state.mutex);
    const std::vector<StoredKey*> turn =
        state.keys.List("", walked, kKeysPerTurn);
    has_more = turn.size() == kKeysPerTurn;
    if (has_more) walked = std::string(turn.back()->name());
    for (StoredKey* const key : turn) {
      if (keys.size() == max_keys) break;
      keys.push_back({.key = KeyPtr(key), .bytes = BytesOf(*key)});
    }
  }
  std::stable_sort(
      keys.begin(), keys.end(),
      [](const KeyMove& a, const KeyMove& b) { return a.bytes > b.bytes; });
  std::vector<uint64_t> free = state.environment.budgets->FreeBytes();
  std::erase_if(keys, [&free](KeyMove& move) {
    const auto most = std::max_element(free.begin(), free.end());
    uint64_t& own = free[move.key->device];
    move.to = static_cast<DeviceIndex>(most - free.begin());
    if (move.bytes == 0 || *most < own || (*most - own) / 2 < move.bytes) {
      return true;
    }
    *most -= move.bytes;
    own += move.bytes;
    return false;
  });
  return keys;
}

size_t NumKeys(const NamespaceState& state) {
  MutexLock lock(&state.mutex);
  return state.keys.size();
}

absl::StatusOr<RefPtr<Buffer>> AllocateRoom(const NamespaceState& state,
                                            uint64_t bytes) {
  const RefPtr<BudgetAccount>& account = state.memory.host().values;
  ASSIGN_OR_RETURN(Reservation reserved, Reservation::Create(account, bytes));
  ASSIGN_OR_RETURN(RefPtr<Buffer> room,
                   state.environment.devices->AllocateStaging(bytes, account));
  reserved.HandOver();
  return room;
}

// Moves some keys. Used by one thread, which holds cut_lock and rules_lock.
class MovingKeys {
 public:
  MovingKeys(NamespaceState& state, absl::Span<KeyMove> moves)
      : state_(state), moves_(moves) {}

  // Adds what has come of it to the reply. Errors: those of the devices.
  absl::Status Run(Buffer& room, RebalanceNamespaceReply& reply) {
    Begin();
    for (KeyMove& move : moves_) {
      if (move.is_held) move.status = MakeKey(move);
    }
    const absl::Status copied =
        state_.environment.devices->CopyBetween(copies_, room);
    for (KeyMove& move : moves_) move.status.Update(copied);
    End(reply);
    return copied;
  }

 private:
  // From now on updates of the keys wait.
  void Begin() {
    MutexLock lock(&state_.mutex);
    for (KeyMove& move : moves_) {
      move.is_held = !move.key->is_updating && IsIdle(state_, *move.key);
      if (move.is_held) move.key->is_updating = true;
    }
  }

  absl::Status MakeKey(KeyMove& move) {
    const StoredKey& key = *move.key;
    const RefPtr<BudgetAccount>& metadata = state_.memory.metadata();
    RETURN_IF_ERROR(metadata->Reserve(KeyOverheadBytes(key.name())));
    move.moved = StoredKey::Create(key.name(), key.dtype(), key.shape());
    move.moved->ChargeTo(metadata);
    move.moved->device = move.to;
    const MemoryAccounts& memory = state_.memory.on(move.to);
    ASSIGN_OR_RETURN(move.moved->value,
                     Copy(move, key.value, memory.values, /*is_new=*/false));
    if (key.rule_state == nullptr) return absl::OkStatus();
    const RuleState& from = *key.rule_state;
    const RefPtr<RuleState> to = MakeRefCounted<RuleState>();
    // Also if there is no room for some: the others are copied to all the same.
    move.moved->rule_state = to;
    for (const RefPtr<Buffer>& state : from.states) {
      ASSIGN_OR_RETURN(to->states.emplace_back(),
                       Copy(move, state, memory.state, from.states_are_new));
    }
    if (from.master) {
      ASSIGN_OR_RETURN(to->master, Copy(move, from.master, memory.state,
                                        from.master_is_new));
    }
    to->states_are_new = from.states_are_new;
    to->master_is_new = from.master_is_new;
    return absl::OkStatus();
  }

  // Memory where the key goes, and the copy of a tensor, unless its elements
  // are yet to be filled.
  absl::StatusOr<RefPtr<Buffer>> Copy(const KeyMove& move,
                                      const RefPtr<Buffer>& from,
                                      const RefPtr<BudgetAccount>& account,
                                      bool is_new) {
    ASSIGN_OR_RETURN(RefPtr<Buffer> to,
                     state_.AllocateOn(move.to, account, from->size_bytes()));
    if (!is_new) {
      copies_.push_back(
          {move.key->device,
           move.to,
           {from->data(), to->mutable_data(), from->size_bytes()}});
    }
    return to;
  }

  // The keys that nobody has come to meanwhile are where they were to go; the
  // updates of all others go on where they are.
  void End(RebalanceNamespaceReply& reply) {
    std::vector<KeyPtr> more;
    {
      Transaction transaction(state_);
      for (KeyMove& move : moves_) {
        StoredKey& key = *move.key;
        if (!move.is_held) {
          ++reply.kept_keys;
          continue;
        }
        EndHold(transaction, move.key, more);
        if (move.status.ok() && IsIdle(state_, key)) {
          TakePlaceOf(key, move.moved);
          ++reply.moved_keys;
          reply.moved_bytes += move.bytes;
        } else {
          ++reply.kept_keys;
        }
      }
      transaction.Unlock();
    }
    UpdateRunner(state_).RunNext(std::move(more));
  }

  void TakePlaceOf(StoredKey& key, const KeyPtr& moved) {
    moved->version = key.version;
    moved->update_count = key.update_count;
    moved->rule = key.rule;
    moved->multipliers = key.multipliers;
    if (key.rule_state) {
      moved->rule_state->total_weight = key.rule_state->total_weight;
    }
    moved->rounds = std::move(key.rounds);
    moved->contributions = std::move(key.contributions);
    state_.watches.Move(&key, moved.get());
    state_.keys.Insert(moved);
  }

  NamespaceState& state_;
  const absl::Span<KeyMove> moves_;
  std::vector<CopyBetweenDevices> copies_;
};

}  // namespace

absl::StatusOr<RebalanceNamespaceReply> Namespace::RebalanceNamespace(
    const RebalanceNamespaceRequest&, const CallContext& context) {
  NamespaceState& state = *state_;
  RebalanceNamespaceReply reply;
  if (state.environment.devices->size() < 2) return reply;
  // The caller's time also goes by while others hold the locks.
  const absl::Duration started = state.Now();
  Alarms& alarms = *state.environment.alarms;
  // Neither a checkpoint nor another rule comes in between.
  ASSIGN_OR_RETURN(const LongLock::Holder no_cut,
                   state.cut_lock.Acquire(context, alarms));
  CallContext rest = context;
  rest.timeout -= state.Now() - started;
  ASSIGN_OR_RETURN(const LongLock::Holder rules_stay,
                   state.rules_lock.Acquire(rest, alarms));
  const size_t max_keys = NumKeys(state);
  ASSIGN_OR_RETURN(
      const Reservation counted,
      Reservation::Create(state.memory.metadata(), max_keys * sizeof(KeyMove)));
  std::vector<KeyMove> moves = ChooseMoves(state, max_keys);
  if (moves.empty()) return reply;
  ASSIGN_OR_RETURN(
      const RefPtr<Buffer> room,
      AllocateRoom(state, std::min(kRoomBytes, moves.front().bytes)));
  for (size_t begin = 0; begin < moves.size();) {
    RETURN_IF_ERROR(CheckIsWanted(state, context));
    if (state.Now() - started >= context.timeout) {
      return absl::DeadlineExceededError(absl::StrCat(
          "namespace ", Quoted(state.name), ": moved ", reply.moved_keys,
          " keys, and ", moves.size() - begin, " were to follow"));
    }
    uint64_t bytes = 0;
    size_t end = begin;
    while (end < moves.size() && end - begin < kKeysPerTurn &&
           (end == begin || bytes + moves[end].bytes <= kBytesPerStep)) {
      bytes += moves[end++].bytes;
    }
    const absl::Span<KeyMove> step =
        absl::MakeSpan(moves).subspan(begin, end - begin);
    RETURN_IF_ERROR(MovingKeys(state, step).Run(*room, reply));
    // What was left is free for the next.
    for (KeyMove& move : step) move = {};
    begin = end;
  }
  return reply;
}

}  // namespace tensorkv
