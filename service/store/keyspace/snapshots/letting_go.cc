#include "service/store/keyspace/snapshots/letting_go.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/pull/delta_queue.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Bounds what one locking of the mutex lets go, and so what one change waits
// for, where many values go.
constexpr size_t kValuesPerLock = kKeysPerLock;

// Has the pool let go of what is left over, some for each locking. Of that,
// older snapshots may have values yet, and too many of them.
void SweepOnPool(Transaction& transaction) {
  transaction.Submit([state = transaction.state().shared_from_this()] {
    for (bool is_all = false; !is_all;) {
      Transaction transaction(*state, Transaction::Thread::kOwn);
      is_all = state->named->Sweep(kValuesPerLock, transaction.let_go());
      MakeRoom(transaction, {});
    }
  });
}

uint64_t RetainedBytes(const NamedSnapshots& named) {
  return named.value_bytes() + named.overhead_bytes() - named.leftover_bytes();
}

}  // namespace

bool MayLetGo(Transaction& transaction, size_t num_before) {
  return num_before < kSnapshotsPerLock &&
         transaction.let_go().num_texts < kTextsPerLock;
}

void CloseSnapshot(Transaction& transaction, NamedSnapshot& snapshot,
                   NamedSnapshots::Cause cause) {
  NamespaceState& state = transaction.state();
  const Series& series = *snapshot.series;
  // Nobody waits for one that is ready, but for all parts of one, of which this
  // may come again at once.
  const bool is_awaited = (!snapshot.is_ready || snapshot.is_share) &&
                          cause != NamedSnapshots::Cause::kReplaced;
  const bool had_leftovers = state.named->has_leftovers();
  const auto& closed = transaction.let_go().snapshots;
  const size_t num_before = closed.size();
  state.named->Close(snapshot, cause, kValuesPerLock, transaction.let_go());
  for (size_t i = num_before; i < closed.size(); ++i) {
    state.snapshots->EndReading();
  }
  if (!had_leftovers && state.named->has_leftovers()) SweepOnPool(transaction);
  if (is_awaited) Wake(transaction, SnapshotTopic(series.name));
}

absl::Status CheckRoom(const NamespaceState& state, const BytesNeeded& more,
                       uint64_t freed) {
  const uint64_t limit = state.config.max_retained_bytes;
  const uint64_t used = RetainedBytes(*state.named) - freed;
  const uint64_t needed = SumOfBytes(more.host, more.device);
  if (limit > 0 && SumOfBytes(used, needed) > limit) {
    return WithReason(
        absl::ResourceExhaustedError(
            absl::StrCat("namespace ", Quoted(state.name),
                         ": expected snapshots to keep at most ", limit,
                         " bytes, got ", used, " and ", needed, " more")),
        Reason::kOverBudget,
        {{"needed", needed}, {"available", limit - std::min(limit, used)}});
  }
  BytesNeeded leaving = state.named->leaving();
  leaving.host += freed;
  return state.memory.CheckRetained(more, leaving);
}

void MakeRoom(Transaction& transaction, const BytesNeeded& more) {
  const NamespaceState& state = transaction.state();
  state.environment.deltas->TrimIfAboveRoom();
  while (NamedSnapshot* const victim = state.named->Victim()) {
    if (CheckRoom(state, more).ok()) return;
    const uint64_t overhead = state.named->overhead_bytes();
    if (victim->held.empty() && !CheckRoom(state, more, overhead).ok()) return;
    CloseSnapshot(transaction, *victim, NamedSnapshots::Cause::kRetained);
  }
}

void TrimSeries(Transaction& transaction, Series& series) {
  for (size_t i = 0; MayLetGo(transaction, i); ++i) {
    NamedSnapshot* const surplus = NamedSnapshots::Surplus(series);
    if (surplus == nullptr) return;
    CloseSnapshot(transaction, *surplus, NamedSnapshots::Cause::kKeepLast);
  }
  // The series stays where it is, as long as the namespace does.
  transaction.Submit([state = transaction.state().shared_from_this(), &series] {
    Transaction transaction(*state, Transaction::Thread::kOwn);
    TrimSeries(transaction, series);
  });
}

namespace {

void EndDue(NamespaceState& state) {
  Transaction transaction(state, Transaction::Thread::kAlarms);
  state.snapshot_alarm.MarkRung();
  const absl::Duration now = state.Now();
  for (size_t i = 0; MayLetGo(transaction, i); ++i) {
    NamedSnapshot* const due = state.named->TakeDue(now);
    if (due == nullptr) break;
    Series& series = *due->series;
    if (due->IsExpired(now)) {
      CloseSnapshot(transaction, *due, NamedSnapshots::Cause::kExpired);
    }
    TrimSeries(transaction, series);
  }
  SetSnapshotAlarm(state);
}

}  // namespace

void SetSnapshotAlarm(NamespaceState& state) {
  state.snapshot_alarm.RingAt(state.named->next_due(), state, &EndDue);
}

}  // namespace tensorkv
