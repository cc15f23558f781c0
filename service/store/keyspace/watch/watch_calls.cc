#include "service/store/keyspace/watch/watch_calls.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "contract/slices.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Bounds how many calls one task looks at.
constexpr size_t kWatchesPerTask = 64;
// Bounds how often a look locks the log.
constexpr size_t kLocksPerLook = 16;
constexpr uint64_t kWatchOverheadBytes = 2048;
// Changes are remembered for so long for watches that may go on.
constexpr absl::Duration kMemory = absl::Minutes(5);

std::string IdOf(char kind, absl::string_view name) {
  return absl::StrCat(absl::string_view(&kind, 1), name);
}

// Returns what the call is found by.
std::vector<std::string> IdsOf(const WatchFilter& filter) {
  std::vector<std::string> ids;
  if (filter.prefix) ids.push_back(IdOf('p', *filter.prefix));
  if (filter.key) ids.push_back(IdOf('k', *filter.key));
  if (filter.series) ids.push_back(IdOf('s', *filter.series));
  return ids;
}

absl::Status GivenUp() {
  return absl::CancelledError("waiting for a change: the caller has given up");
}

// Takes what has changed to the log, and marks the calls that have to hear of
// it. One runs at a time: the alarm is marked at the end.
void TakeChanges(NamespaceState& state) {
  RecentChanges::Batch batch;  // it goes without the mutex
  bool is_forgotten = false;
  {
    MutexLock lock(&state.mutex);
    is_forgotten = state.watch_calls->IsForgotten();
    if (is_forgotten) {
      batch = state.changes.End();
      state.log->Break();
    } else {
      batch = state.changes.Take(state.revisions.told(), state.Now());
    }
  }
  if (is_forgotten) {
    state.log->Clear();
  } else {
    state.log->Add(std::move(batch));
    state.watch_calls->MarkBehind();
  }
  MutexLock lock(&state.mutex);
  state.change_alarm.MarkRung();
  ScheduleTelling(state);
}

// The thread of the alarms serves everybody.
void TakeChangesOnPool(NamespaceState& state) {
  state.SubmitRead([self = state.shared_from_this()] { TakeChanges(*self); });
}

}  // namespace

// Who sees an open key that has come sees that it is owned.
OwnKeys::OwnKeys(const NamespaceState& state)
    : name_space_(state.name), fence_(state.Fence()), owned_(state.Owned()) {}

// A former owner may have a fence that is open.
KeyTelling OwnKeys::TellingOf(absl::string_view key) const {
  const bool is_own = owned_ == nullptr || owned_->Has(name_space_, key);
  if (!is_own) return KeyTelling::kSkipped;
  if (fence_ == nullptr) return KeyTelling::kTold;
  const absl::Status status = fence_->CheckRead(name_space_, key);
  if (status.ok()) return KeyTelling::kTold;
  return ReasonOf(status) == Reason::kKeyMoving ? KeyTelling::kLater
                                                : KeyTelling::kSkipped;
}

absl::StatusOr<WatchReply> ReadChanges(const NamespaceState& state,
                                       const WatchTerms& terms,
                                       size_t max_locks, WatchToken& token) {
  WatchReply reply;
  const OwnKeys own(state);
  const auto telling = [&](absl::string_view key) {
    return own.TellingOf(key);
  };
  const LogReading reading = {terms.filter, token.not_before, terms.max_changes,
                              max_locks, telling};
  const bool is_covered = token.incarnation == state.tokens.incarnation() &&
                          state.log->Read(reading, token.position, reply);
  if (!is_covered) {
    return WithReason(
        absl::AbortedError(absl::StrCat(
            "watch of namespace ", Quoted(state.name),
            ": what has changed since the token is not remembered: begin "
            "anew")),
        Reason::kRevisionCompacted, {{"namespace", state.name}});
  }
  token.has_more = reply.has_more();
  SetToken(state, token, reply);
  return reply;
}

void SetToken(const NamespaceState& state, const WatchToken& token,
              WatchReply& reply) {
  reply.set_token(token.ToString());
  reply.set_is_mirrored(state.config.mirrored);
}

void ScheduleTelling(NamespaceState& state) {
  if (!state.changes.is_on()) return;
  // Where nothing changes any more, it is found out that nobody watches.
  const absl::Duration when =
      state.changes.MustTake(state.revisions.told())
          ? state.changes.next_take()
          : state.Now() + kMemory + RecentChanges::kPause;
  // Not before it has rung last: that is being seen to.
  state.change_alarm.RingAt(std::max(when, state.Now()), state,
                            &TakeChangesOnPool);
}

// Those that are due at about the same time are looked at together.
WatchCall::WatchCall(WatchTerms its_terms, WatchToken its_token,
                     CallContext its_context,
                     ReplyCallback<WatchReply> its_done, absl::Duration now,
                     absl::Duration timeout)
    : terms(std::move(its_terms)),
      context(std::move(its_context)),
      done(std::move(its_done)),
      token(std::move(its_token)),
      started(now),
      due(absl::Ceil(now + std::min(terms.interval, timeout / 2),
                     RecentChanges::kPause)),
      end(now + timeout),
      share(context.share.lock()) {}

uint64_t WatchCall::size_bytes() const {
  uint64_t bytes = kWatchOverheadBytes + token.after.size();
  for (const std::string& id : IdsOf(terms.filter)) bytes += 2 * id.size();
  return bytes;
}

void WatchCalls::Start(const WatchCallPtr& call) {
  auto reservation =
      Reservation::Create(state_.memory.metadata(), call->size_bytes());
  if (!reservation.ok()) return std::move(call->done)(reservation.status());
  call->reservation = *std::move(reservation);
  if (const auto& record = call->context.caller.record) {
    record->SetAwaited(absl::StrCat("waiting for a change in namespace ",
                                    Quoted(state_.name)));
  }
  // A copy: once parked, the call belongs to whoever ends it.
  const std::shared_ptr<Cancellation> cancellation = call->context.cancellation;
  const uint64_t ticket =
      cancellation == nullptr ? 0 : cancellation->TakeTicket();
  ++num_waiting_;
  const absl::Status parked = Park(call);
  if (!parked.ok()) return Send(call, parked);
  if (cancellation == nullptr) return;
  cancellation->OnCancel(ticket, [call, weak_state = state_.weak_from_this()] {
    if (const auto state = weak_state.lock()) state->watch_calls->Cancel(call);
  });
}

absl::Status WatchCalls::Park(const WatchCallPtr& call) {
  MutexLock lock(&mutex_);
  if (!ended_.ok()) return ended_;
  if (call->is_cancelled) return GivenUp();
  const bool is_first = !call->interruption.has_value();
  if (is_first) call->interruption = num_interruptions_;
  if (*call->interruption != num_interruptions_) return interruption_;
  const absl::Duration now = state_.Now();
  // Who was looked at and has to be looked at again waits for others: effects
  // that are under way, keys that move.
  call->is_behind = call->token.position < marked_ ||
                    call->token.not_before > state_.log->told();
  const absl::Duration due =
      std::max(call->due, is_first ? now : now + RecentChanges::kPause);
  call->looked_at = call->is_behind ? std::min(due, call->end) : call->end;
  call->is_parked = true;
  queue_.emplace(call->looked_at, call);
  for (std::string& id : IdsOf(call->terms.filter)) {
    index_[std::move(id)].insert(call.get());
  }
  if (call->terms.filter.prefix) {
    ++prefix_sizes_[call->terms.filter.prefix->size()];
  }
  SetAlarm();
  return absl::OkStatus();
}

void WatchCalls::Remove(const WatchCallPtr& call) {
  queue_.erase({call->looked_at, call});
  for (const std::string& id : IdsOf(call->terms.filter)) {
    const auto calls = index_.find(id);
    calls->second.erase(call.get());
    if (calls->second.empty()) index_.erase(calls);
  }
  if (const auto& prefix = call->terms.filter.prefix) {
    const auto size = prefix_sizes_.find(prefix->size());
    if (--size->second == 0) prefix_sizes_.erase(size);
  }
  call->is_parked = false;
  if (call->is_behind) return;
  call->token.position = std::max(call->token.position, marked_);
}

void WatchCalls::SetAlarm() {
  if (queue_.empty()) return;
  alarm_.RingAt(std::max(queue_.begin()->first, state_.Now()), state_,
                &LookAtDueOnPool);
}

void WatchCalls::LookAtDueOnPool(NamespaceState& state) {
  state.SubmitRead(
      [self = state.shared_from_this()] { self->watch_calls->LookAtDue(); });
}

void WatchCalls::LookAtDue() {
  std::vector<WatchCallPtr> calls;
  {
    MutexLock lock(&mutex_);
    alarm_.MarkRung();
    const absl::Duration now = state_.Now();
    while (calls.size() < kWatchesPerTask && !queue_.empty() &&
           queue_.begin()->first <= now) {
      calls.push_back(queue_.begin()->second);
      Remove(calls.back());
    }
    SetAlarm();
  }
  for (const WatchCallPtr& call : calls) Look(call);
}

void WatchCalls::Look(const WatchCallPtr& call) {
  absl::StatusOr<WatchReply> reply =
      ReadChanges(state_, call->terms, kLocksPerLook, call->token);
  const bool must_end = !reply.ok() || reply->has_more() ||
                        !reply->changes().empty() || state_.Now() >= call->end;
  if (!must_end) {
    const absl::Status parked = Park(call);
    if (parked.ok()) return;
    reply = parked;
  }
  Count(reply);
  Send(call, std::move(reply));
}

void WatchCalls::Send(const WatchCallPtr& call,
                      absl::StatusOr<WatchReply> reply) {
  Touch();
  --num_waiting_;
  {
    MutexLock lock(&mutex_);
    ++counts_.waits.calls_ended;
    counts_.waits.waited += state_.Now() - call->started;
  }
  call->context.cancellation.reset();
  call->reservation.Clear();
  call->share = nullptr;
  std::move(call->done)(std::move(reply));
}

void WatchCalls::Cancel(const WatchCallPtr& call) {
  {
    MutexLock lock(&mutex_);
    call->is_cancelled = true;
    if (!call->is_parked) return;  // who has it finds that, or ends it
    Remove(call);
  }
  Send(call, GivenUp());
}

void WatchCalls::End(const absl::Status& status, bool for_ever) {
  std::vector<WatchCallPtr> calls;
  {
    MutexLock lock(&mutex_);
    if (for_ever) ended_ = status;
    ++num_interruptions_;
    interruption_ = status;
    for (const auto& [time, call] : queue_) calls.push_back(call);
    for (const WatchCallPtr& call : calls) Remove(call);
  }
  for (const WatchCallPtr& call : calls) Send(call, status);
}

void WatchCalls::MarkBehind() {
  for (bool has_more = true; has_more;) {
    MutexLock lock(&mutex_);
    const auto mark = [this](uint64_t position, const RecordedChange& change)
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                            MarkBehind(position, change);
                          };
    if (!state_.log->Visit(marked_, mark)) {
      // All hear that they must begin anew.
      const auto queue = queue_;
      for (const auto& [time, call] : queue) MarkBehind(*call, /*position=*/0);
      marked_ = state_.log->last();
    }
    has_more = marked_ < state_.log->last();
    SetAlarm();
  }
}

void WatchCalls::MarkBehind(uint64_t position, const RecordedChange& change) {
  if (change.kind == ChangeKind::kSnapshot) {
    MarkAt(IdOf('s', change.name), position);
    return MarkAt("s", position);
  }
  MarkAt(IdOf('k', change.name), position);
  // What lies in slices is not of those who watch shorter prefixes.
  const bool is_in_slices = absl::StartsWith(change.name, kSliceMark);
  const size_t min_size = is_in_slices ? kSliceMark.size() : 0;
  for (auto size = prefix_sizes_.lower_bound(min_size);
       size != prefix_sizes_.end() && size->first <= change.name.size();
       ++size) {
    MarkAt(IdOf('p', absl::string_view(change.name).substr(0, size->first)),
           position);
  }
}

void WatchCalls::MarkAt(absl::string_view id, uint64_t position) {
  const auto calls = index_.find(id);
  if (calls == index_.end()) return;
  for (WatchCall* const call : calls->second) MarkBehind(*call, position);
}

void WatchCalls::MarkBehind(WatchCall& call, uint64_t position) {
  if (call.is_behind) return;
  call.is_behind = true;
  // Nothing before has to be told to it.
  call.token.position =
      std::max(call.token.position, position == 0 ? 0 : position - 1);
  auto entry =
      queue_.extract(queue_.find({call.looked_at, call.shared_from_this()}));
  call.looked_at = std::min(std::max(call.due, state_.Now()), call.end);
  entry.value().first = call.looked_at;
  queue_.insert(std::move(entry));
}

void WatchCalls::Touch() {
  last_use_nanoseconds_ = absl::ToInt64Nanoseconds(state_.Now());
}

bool WatchCalls::IsForgotten() const {
  const auto last_use = absl::Nanoseconds(last_use_nanoseconds_.load());
  return num_waiting_ == 0 && state_.Now() - last_use > kMemory;
}

void WatchCalls::Count(const absl::StatusOr<WatchReply>& reply) {
  MutexLock lock(&mutex_);
  if (reply.ok()) {
    counts_.changes_told += reply->changes_size();
  } else if (ReasonOf(reply.status()) == Reason::kRevisionCompacted) {
    ++counts_.watches_compacted;
  }
}

WatchCalls::Counts WatchCalls::counts() const {
  MutexLock lock(&mutex_);
  Counts counts = counts_;
  counts.waits.calls_waiting = num_waiting_.load();
  return counts;
}

}  // namespace tensorkv
