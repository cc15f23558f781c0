// Watch: tells what changes in a namespace.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/duration.h"
#include "contract/reason.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/snapshot_terms.h"
#include "service/store/keyspace/watch/watch_calls.h"
#include "service/store/keyspace/watch/watch_token.h"
#include "service/store/looks.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

constexpr uint32_t kMaxChangesOfReply = 1000;
constexpr absl::Duration kDefaultInterval = absl::Milliseconds(100);
constexpr absl::Duration kMaxInterval = absl::Hours(1);

absl::StatusOr<WatchFilter> FilterOf(const WatchRequest& request) {
  WatchFilter filter;
  if (request.has_prefix()) filter.prefix = request.prefix();
  if (request.has_key()) {
    RETURN_IF_ERROR(CheckKey(request.key()));
    filter.key = request.key();
  }
  if (request.has_series()) {
    if (!request.series().empty()) {
      RETURN_IF_ERROR(CheckSeriesName("series", request.series()));
    }
    filter.series = request.series();
  }
  if (filter.prefix || filter.key || filter.series) return filter;
  return absl::InvalidArgumentError(
      "expected a prefix, a key or a series to watch, got none");
}

absl::StatusOr<WatchTerms> TermsOf(const WatchRequest& request) {
  WatchTerms terms = {.interval = kDefaultInterval};
  ASSIGN_OR_RETURN(terms.filter, FilterOf(request));
  if (request.has_interval()) {
    ASSIGN_OR_RETURN(terms.interval,
                     DecodeDuration("interval", request.interval()));
  }
  if (terms.interval < absl::ZeroDuration() || terms.interval > kMaxInterval) {
    return absl::InvalidArgumentError(absl::StrCat(
        "interval: expected 0 to ", absl::FormatDuration(kMaxInterval),
        ", got ", absl::FormatDuration(terms.interval)));
  }
  terms.max_changes = request.max_changes() == 0
                          ? kMaxChangesOfReply
                          : std::min(request.max_changes(), kMaxChangesOfReply);
  return terms;
}

// Returns how long the call may wait. Errors: InvalidArgument.
absl::StatusOr<absl::Duration> TimeoutOf(const NamespaceState& state,
                                         const WatchRequest& request,
                                         const CallContext& context) {
  const absl::Duration timeout =
      std::min(context.timeout, state.environment.max_wait);
  if (!request.has_max_wait()) return timeout;
  ASSIGN_OR_RETURN(const absl::Duration max_wait,
                   DecodeDuration("max_wait", request.max_wait()));
  return std::clamp(max_wait, absl::ZeroDuration(), timeout);
}

absl::Status NoSuchToken() {
  return absl::InvalidArgumentError(
      "token: expected one that a Watch has given");
}

// Has changes collected from now on. Returns the token of a watch that begins,
// or of one that goes on. Errors: InvalidArgument · the namespace has gone.
absl::StatusOr<WatchToken> BeginWatch(NamespaceState& state,
                                      const WatchRequest& request) {
  WatchToken token = {.incarnation = state.tokens.incarnation(),
                      .is_listing = request.initial()};
  if (!request.token().empty()) {
    const auto parsed = WatchToken::Parse(request.token());
    if (!parsed) return NoSuchToken();
    token = *parsed;
  }
  MutexLock lock(&state.mutex);
  RETURN_IF_ERROR(state.gone);
  // No page was of so late a time; it would be waited for again and again.
  if (token.incarnation == state.tokens.incarnation() &&
      token.not_before > state.revisions.last()) {
    return NoSuchToken();
  }
  state.watch_calls->Touch();
  state.changes.Begin();
  if (request.token().empty()) token.position = state.log->last();
  return token;
}

absl::Status IsMoving(absl::string_view key) {
  return WithReason(
      absl::UnavailableError(absl::StrCat("key ", Quoted(key),
                                          " is on its way to another server")),
      Reason::kKeyMoving, {{"key", key}});
}

// Adds to `reply`, from what there is of keys after the token's name. Returns
// whether that is all. Errors: Unavailable (KEY_MOVING). REQUIRES: the mutex is
// held.
absl::StatusOr<bool> ListKeys(const NamespaceState& state,
                              const WatchTerms& terms, WatchToken& token,
                              WatchReply& reply) {
  const OwnKeys own(state);
  const auto add = [&](const StoredKey& key) -> absl::Status {
    const KeyTelling telling = own.TellingOf(key.name());
    // Its server lists it.
    if (telling == KeyTelling::kSkipped) return absl::OkStatus();
    if (telling == KeyTelling::kLater) return IsMoving(key.name());
    v1::Change& change = *reply.add_changes();
    change.set_key(std::string(key.name()));
    change.set_version(key.version);
    change.set_revision(state.revisions.last());
    return absl::OkStatus();
  };
  if (terms.filter.key) {
    const StoredKey* const key = state.keys.Find(*terms.filter.key);
    if (key != nullptr) RETURN_IF_ERROR(add(*key));
    return true;
  }
  if (!terms.filter.prefix) return true;
  const std::vector<StoredKey*> keys =
      state.keys.List(*terms.filter.prefix, token.after, terms.max_changes);
  for (const StoredKey* const key : keys) {
    // None but slices come after the first one.
    if (!terms.filter.MatchesKey(key->name())) return true;
    RETURN_IF_ERROR(add(*key));
  }
  if (keys.size() < terms.max_changes) return true;
  token.after = std::string(keys.back()->name());
  return false;
}

// Adds the newest that can be read.
void AddSeries(const NamespaceState& state, const Series& series,
               absl::string_view name, WatchReply& reply) {
  const auto newest = std::find_if(
      series.snapshots.rbegin(), series.snapshots.rend(),
      [](const auto& snapshot) { return snapshot.second.is_ready; });
  if (newest == series.snapshots.rend()) return;
  v1::Change& change = *reply.add_changes();
  change.set_series(std::string(name));
  change.set_number(newest->first);
  change.set_revision(state.revisions.last());
}

// Adds to `reply`, from what there is of series after the token's name. Returns
// whether that is all. Errors: Unavailable (KEY_MOVING). REQUIRES: the mutex is
// held.
absl::StatusOr<bool> ListSeries(const NamespaceState& state,
                                const WatchTerms& terms, WatchToken& token,
                                WatchReply& reply) {
  if (!terms.filter.series) return true;
  const KeyTelling telling = OwnKeys(state).TellingOf("");
  if (telling == KeyTelling::kSkipped) return true;  // the home lists them
  if (telling == KeyTelling::kLater) return IsMoving("");
  const std::string& name = *terms.filter.series;
  if (!name.empty()) {
    const NamedSnapshots& named = *state.named;
    const Series* const series = named.Find(name);
    if (series != nullptr) AddSeries(state, *series, name, reply);
    return true;
  }
  const Series::Map& all = state.named->series();
  size_t num_looks = 0;
  for (auto it = all.upper_bound(absl::string_view(token.after).substr(1));
       it != all.end(); ++it) {
    const size_t num_changes = reply.changes_size();
    if (num_changes >= terms.max_changes || ++num_looks > kKeysPerLock) {
      return false;
    }
    CountLook();
    token.after =
        absl::StrCat(std::string(1, WatchToken::kSeriesMark), it->first);
    AddSeries(state, it->second, it->first, reply);
  }
  return true;
}

// Returns a page of what there is, with the token of after it. Errors:
// Unavailable (KEY_MOVING).
absl::StatusOr<WatchReply> ListExisting(NamespaceState& state,
                                        const WatchTerms& terms,
                                        WatchToken token) {
  WatchReply reply;
  reply.set_initial(true);
  const std::string mark(1, WatchToken::kSeriesMark);
  MutexLock large_lock(&state.large_calls_mutex);
  MutexLock lock(&state.mutex);
  if (!absl::StartsWith(token.after, mark)) {
    ASSIGN_OR_RETURN(const bool has_keys, ListKeys(state, terms, token, reply));
    if (has_keys) token.after = mark;
  }
  bool has_all = absl::StartsWith(token.after, mark);
  if (has_all) {
    ASSIGN_OR_RETURN(has_all, ListSeries(state, terms, token, reply));
  }
  token.has_more = !has_all;
  if (!token.has_more) {
    token.is_listing = false;
    token.after.clear();
    token.not_before = state.revisions.last();
    // The log may not have been told yet that all up to there has ended.
    ScheduleTelling(state);
  }
  reply.set_has_more(token.has_more);
  SetToken(state, token, reply);
  return reply;
}

// Answers a call that need not wait: the first, one that lists, one that
// gathers nothing and finds something, one at no place that is remembered.
std::optional<absl::StatusOr<WatchReply>> AnswerAtOnce(
    NamespaceState& state, const WatchTerms& terms, const WatchRequest& request,
    WatchToken& token) {
  const bool is_covered = token.incarnation == state.tokens.incarnation() &&
                          state.log->Covers(token.position);
  if (is_covered && token.is_listing) return ListExisting(state, terms, token);
  if (request.token().empty()) {
    WatchReply reply;
    SetToken(state, token, reply);
    return reply;
  }
  const bool is_due = token.has_more || terms.interval == absl::ZeroDuration();
  if (is_covered && !is_due) return std::nullopt;
  // Who has to look at more does so on another thread.
  absl::StatusOr<WatchReply> reply =
      ReadChanges(state, terms, /*max_locks=*/1, token);
  if (reply.ok() && reply->changes().empty()) {
    return std::nullopt;
  }
  return reply;
}

}  // namespace

void Namespace::Watch(WatchRequest request, CallContext context,
                      ReplyCallback<WatchReply> done) {
  absl::StatusOr<WatchTerms> terms = TermsOf(request);
  if (!terms.ok()) return std::move(done)(terms.status());
  const absl::StatusOr<absl::Duration> timeout =
      TimeoutOf(*state_, request, context);
  if (!timeout.ok()) return std::move(done)(timeout.status());
  // What gathers for no time is answered at once.
  terms->interval = std::min(terms->interval, *timeout / 2);
  absl::StatusOr<WatchToken> token = BeginWatch(*state_, request);
  if (!token.ok()) return std::move(done)(token.status());
  if (auto answer = AnswerAtOnce(*state_, *terms, request, *token)) {
    state_->watch_calls->Count(*answer);
    return std::move(done)(*std::move(answer));
  }
  state_->watch_calls->Start(std::make_shared<WatchCall>(
      *std::move(terms), *std::move(token), std::move(context), std::move(done),
      state_->Now(), *timeout));
}

void Namespace::BreakWatches() {
  MutexLock lock(&state_->mutex);
  state_->changes.Lose();
  ScheduleTelling(*state_);
}

}  // namespace tensorkv
