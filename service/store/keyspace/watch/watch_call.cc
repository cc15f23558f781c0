#include "service/store/keyspace/watch/watch_call.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

using WatchCallPtr = std::shared_ptr<WatchCall>;

// Bounds how many calls one locking of the mutex ends.
constexpr size_t kWatchesPerLock = 64;

// None but these wait at the topic.
WatchCallPtr AsWatch(const WaitingCallPtr& call) {
  return std::static_pointer_cast<WatchCall>(call);
}

// Returns the calls that may answer now. REQUIRES: the mutex is held.
std::vector<WatchCallPtr> DueCalls(const NamespaceState& state) {
  std::vector<WatchCallPtr> due;
  const absl::Duration now = state.Now();
  for (const WaitingCallPtr& each : state.waits.At(kChangesTopic)) {
    WatchCallPtr call = AsWatch(each);
    if (call->due() <= now) due.push_back(std::move(call));
  }
  return due;
}

// What one call was found to be told.
struct Found {
  WatchCallPtr call;
  WatchToken token;
  absl::StatusOr<WatchReply> reply;
};

void EndFound(NamespaceState& state, absl::Span<const WatchCallPtr> calls) {
  std::vector<Found> found;
  for (const WatchCallPtr& call : calls) {
    Found& one = found.emplace_back();
    one.call = call;
    one.reply = call->Read(&one.token);
  }
  Transaction transaction(state, Transaction::Thread::kOwn);
  for (Found& one : found) {
    if (one.call->is_finished) continue;
    if (!one.call->Take(std::move(one.reply), std::move(one.token))) continue;
    state.waits.Remove(one.call);
    EndCall(transaction, one.call);
  }
}

// Has what is yet to be told be told when it is time. REQUIRES: the mutex is
// held.
void ScheduleRest(NamespaceState& state) {
  ScheduleTelling(state);
  absl::Duration due = absl::InfiniteDuration();
  for (const WaitingCallPtr& each : state.waits.At(kChangesTopic)) {
    const WatchCallPtr call = AsWatch(each);
    if (call->IsBehind()) due = std::min(due, call->due());
  }
  if (due == absl::InfiniteDuration()) return;
  state.change_alarm.RingAt(std::max(due, state.Now()), state, &TellChanges);
}

void TellOnPool(NamespaceState& state) {
  std::vector<WatchCallPtr> calls;
  RecentChanges::Batch batch;
  std::shared_ptr<const void> forgotten;
  {
    MutexLock lock(&state.mutex);
    const absl::Duration now = state.Now();
    if (state.waits.At(kChangesTopic).empty() &&
        state.changes.IsForgotten(now)) {
      state.changes.End();
      state.change_alarm.MarkRung();
      forgotten = state.log->Clear();
      return;
    }
    batch = state.changes.Take(state.revisions.told(), now);
    calls = DueCalls(state);
  }
  state.log->Add(batch);
  for (absl::Span<const WatchCallPtr> rest = calls; !rest.empty();) {
    const size_t size = std::min(rest.size(), kWatchesPerLock);
    EndFound(state, rest.first(size));
    rest.remove_prefix(size);
  }
  MutexLock lock(&state.mutex);
  state.change_alarm.MarkRung();
  ScheduleRest(state);
}

}  // namespace

absl::StatusOr<WatchReply> ReadChanges(const NamespaceState& state,
                                       const WatchTerms& terms,
                                       WatchToken& token) {
  WatchReply reply;
  const bool is_covered =
      token.incarnation == state.deltas->incarnation() &&
      state.log->Read(terms.filter, token.not_before, terms.max_changes,
                      token.position, reply);
  if (!is_covered) {
    return WithReason(
        absl::AbortedError(absl::StrCat(
            "watch of namespace ", Quoted(state.name),
            ": what has changed since the token is not remembered: begin "
            "anew")),
        Reason::kRevisionCompacted, {{"namespace", state.name}});
  }
  token.has_more = reply.has_more();
  reply.set_token(token.ToString());
  return reply;
}

bool WatchCall::Take(absl::StatusOr<WatchReply> found, WatchToken token) {
  token_ = std::move(token);
  if (found.ok() && found->changes().empty()) return false;
  if (found.ok()) {
    state_.counts.changes_told += found->changes_size();
  } else {
    ++state_.counts.watches_compacted;
  }
  answer_ = std::move(found);
  return true;
}

// The mutex is held: whoever may answer is asked by TellChanges.
bool WatchCall::CanEnd() {
  if (IsBehind()) {
    state_.change_alarm.RingAt(std::max(due(), state_.Now()), state_,
                               &TellChanges);
  }
  return false;
}

absl::Status WatchCall::Missing() const {
  return WithReason(
      absl::DeadlineExceededError(absl::StrCat(
          "waiting for a change in namespace ", Quoted(state_.name))),
      Reason::kWaitEnded, {{"namespace", state_.name}});
}

// That nothing has changed for so long is an answer.
void WatchCall::Fail(const absl::Status& status) {
  if (!absl::IsDeadlineExceeded(status)) {
    answer_ = status;
    return;
  }
  answer_ = WatchReply();
  answer_->set_token(token_.ToString());
}

uint64_t WatchCall::size_bytes() const {
  const WatchFilter& filter = terms_.filter;
  return kOverheadBytes + filter.prefix.value_or("").size() +
         filter.key.value_or("").size() + filter.series.value_or("").size();
}

void ScheduleTelling(NamespaceState& state) {
  if (!state.changes.MustTake(state.revisions.told())) return;
  // Not before it has rung last: that is being seen to.
  state.change_alarm.RingAt(std::max(state.changes.next_take(), state.Now()),
                            state, &TellChanges);
}

// The thread of the alarms serves everybody.
void TellChanges(NamespaceState& state) {
  state.Submit([self = state.shared_from_this()] { TellOnPool(*self); });
}

}  // namespace tensorkv
