#include "service/store/keyspace/snapshots/letting_go.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Bounds what one locking of the mutex lets go, and so what one change waits
// for, where many values go.
constexpr size_t kValuesPerClose = kKeysPerLock;

// Has the pool let go of what is left over, some for each locking.
void SweepOnPool(NamespaceState& state) {
  state.Submit([state = state.shared_from_this()] {
    for (bool is_all = false; !is_all;) {
      Transaction transaction(*state, Transaction::Thread::kOwn);
      NamedSnapshots::LetGo let_go;
      is_all = state->named->Sweep(kValuesPerClose, let_go);
      transaction.Drop(std::move(let_go));
    }
  });
}

uint64_t RetainedBytes(const NamedSnapshots& named) {
  return named.value_bytes() + named.overhead_bytes() - named.leftover_bytes();
}

}  // namespace

void CloseSnapshot(Transaction& transaction, NamedSnapshot& snapshot,
                   NamedSnapshots::Cause cause) {
  NamespaceState& state = transaction.state();
  const std::string topic = SnapshotTopic(snapshot.series->name);
  const bool had_leftovers = state.named->has_leftovers();
  NamedSnapshots::LetGo let_go;
  state.named->Close(snapshot, cause, kValuesPerClose, let_go);
  state.snapshots->EndReading();
  transaction.Drop(std::move(let_go));
  if (!had_leftovers && state.named->has_leftovers()) SweepOnPool(state);
  Wake(transaction, topic);
}

absl::Status CheckRoom(const NamespaceState& state, const BytesNeeded& more) {
  const uint64_t limit = state.config.max_retained_bytes;
  const uint64_t used = RetainedBytes(*state.named);
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
  return state.memory.CheckRetained(more, state.named->leaving());
}

void MakeRoom(Transaction& transaction, const BytesNeeded& more) {
  const NamespaceState& state = transaction.state();
  while (NamedSnapshot* const victim = state.named->Victim()) {
    if (CheckRoom(state, more).ok()) return;
    CloseSnapshot(transaction, *victim, NamedSnapshots::Cause::kRetained);
  }
}

void TrimSeries(Transaction& transaction, Series& series) {
  while (NamedSnapshot* const surplus = NamedSnapshots::Surplus(series)) {
    CloseSnapshot(transaction, *surplus, NamedSnapshots::Cause::kKeepLast);
  }
}

namespace {

void EndDue(NamespaceState& state) {
  Transaction transaction(state, Transaction::Thread::kAlarms);
  state.snapshot_alarm.MarkRung();
  const absl::Duration now = state.Now();
  while (NamedSnapshot* const due = state.named->TakeDue(now)) {
    Series& series = *due->series;
    if (due->IsExpired(now)) {
      CloseSnapshot(transaction, *due, NamedSnapshots::Cause::kExpired);
    }
    TrimSeries(transaction, series);
  }
  WatchSnapshots(state);
}

}  // namespace

void WatchSnapshots(NamespaceState& state) {
  state.snapshot_alarm.RingAt(state.named->next_due(), state, &EndDue);
}

}  // namespace tensorkv
