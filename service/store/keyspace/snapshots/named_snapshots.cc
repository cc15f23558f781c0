#include "service/store/keyspace/snapshots/named_snapshots.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/looks.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Bounds the series of a namespace, and the leases of a caller there.
constexpr size_t kMaxSeries = 1 << 16;
constexpr size_t kMaxLeases = 1024;
// Bounds the keys that all parts of a namespace name: these may all go in one
// locking of the mutex.
constexpr size_t kMaxNamedKeys = 1 << 18;
// Bounds what is remembered of shares that were let go.
constexpr size_t kMaxLostShares = 1024;

// Count what a series, a snapshot, one of its prefixes and a lease take beside
// their texts, with their places in maps and what the allocator adds.
constexpr uint64_t kSeriesBytes =
    sizeof(Series) + Series::kMostLost * sizeof(Series::Lost) + 100;
constexpr uint64_t kSnapshotBytes = sizeof(NamedSnapshot) + 440;
constexpr uint64_t kSnapshotPartBytes = 200;
// Counts what a key of a part takes, which is in two maps besides.
constexpr uint64_t kPartKeyBytes = 400;
// Counts what a part takes among others, and all of these once.
constexpr uint64_t kPartBytes = sizeof(SnapshotParts) + 300;

RefPtr<BudgetAccount> Unbounded() {
  return MakeRefCounted<BudgetAccount>(
      MakeRefCounted<ByteBudget>("what is let go", UINT64_MAX));
}

// Adds bytes to a reservation from an account that has no bound.
void Add(const RefPtr<BudgetAccount>& account, uint64_t bytes,
         Reservation& reservation) {
  reservation.Merge(*Reservation::Create(account, bytes));
}

absl::Status LimitReached(absl::string_view what, size_t limit) {
  return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                        what, ": expected at most ", limit, ", got one more")),
                    Reason::kLimitReached, {{"limit", limit}});
}

absl::Status NoMoreReserved() {
  return LimitReached("snapshots that are prepared", ReservedNumbers::kMost);
}

// Checks that the series may give the number of the terms.
absl::Status CheckNumber(const SnapshotTerms& terms, const Series* series) {
  const uint64_t last = series == nullptr ? 0 : series->last_number;
  if (terms.expected_latest && *terms.expected_latest != last) {
    return WithReason(
        absl::AbortedError(absl::StrCat("series ", Quoted(terms.series),
                                        ": expected ", *terms.expected_latest,
                                        " to be the latest, got ", last)),
        Reason::kSnapshotConflict,
        {{"series", terms.series}, {"latest", last}});
  }
  const uint64_t number = terms.number.value_or(last + 1);
  const bool is_there =
      series != nullptr &&
      (series->Find(number) != nullptr || series->incomplete.contains(number));
  if (number <= last || is_there) {
    return WithReason(
        absl::FailedPreconditionError(
            absl::StrCat("series ", Quoted(terms.series),
                         ": expected a number above ", last, ", got ", number)),
        Reason::kSnapshotNumberPassed,
        {{"series", terms.series}, {"number", number}, {"latest", last}});
  }
  return absl::OkStatus();
}

// Keeps why a snapshot has gone.
void Remember(const NamedSnapshot& snapshot, Series::Cause cause) {
  std::deque<Series::Lost>& lost = snapshot.series->lost;
  lost.push_back({snapshot.number, snapshot.uid, cause, snapshot.is_share});
  if (lost.size() > Series::kMostLost) lost.pop_front();
}

}  // namespace

NamedSnapshots::NamedSnapshots(const RefPtr<BudgetAccount>& account,
                               const RefPtr<BudgetAccount>& metadata)
    : account_(account),
      metadata_(metadata),
      leaving_overhead_(Unbounded()),
      leaving_values_(Unbounded()) {}

// --- Opening -----------------------------------------------------------------

uint64_t NamedSnapshots::BytesOf(const SnapshotTerms& terms) {
  uint64_t bytes = kSnapshotBytes;
  for (const std::string& prefix : terms.prefixes) {
    bytes += kSnapshotPartBytes + 2 * prefix.size();
  }
  for (const std::string& key : terms.keys) {
    bytes += kPartKeyBytes + 2 * key.size();
  }
  const uint64_t metadata = BytesOf(terms.metadata, /*servers=*/{});
  if (terms.part_count == 0) return bytes + metadata;
  // The parts of its number may have others beside its own.
  return bytes + 2 * metadata + kPartBytes;
}

uint64_t NamedSnapshots::BytesOf(
    const std::map<std::string, std::string>& metadata,
    const std::vector<ServerShare>& servers) {
  uint64_t bytes = 0;
  for (const auto& [name, value] : metadata) {
    bytes += kSnapshotPartBytes + name.size() + value.size();
  }
  for (const ServerShare& share : servers) {
    bytes += kSnapshotPartBytes + share.server.size();
  }
  return bytes;
}

uint64_t NamedSnapshots::BytesOf(const SnapshotLeaseId& id) {
  return kSnapshotPartBytes + id.caller.size() + id.name.size();
}

absl::Status NamedSnapshots::Check(SnapshotTerms& terms) const {
  const Series* const series = Find(terms.series);
  if (terms.part_count > 0) {
    RETURN_IF_ERROR(CheckPart(terms, series));
  } else if (!terms.is_share) {
    RETURN_IF_ERROR(CheckNumber(terms, series));
  }
  if (series == nullptr && series_.size() >= kMaxSeries) {
    return LimitReached("series of snapshots", kMaxSeries);
  }
  if (!prefixes_.HasRoomFor(terms.prefixes)) {
    return LimitReached("lengths of prefixes", PrefixIndex::kMaxLengths);
  }
  if (series == nullptr) {
    ASSIGN_OR_RETURN(terms.series_overhead, ReserveSeries(terms.series));
  }
  return absl::OkStatus();
}

absl::Status NamedSnapshots::CheckPart(const SnapshotTerms& terms,
                                       const Series* series) const {
  const SnapshotParts* const parts = FindParts(terms.series, *terms.number);
  const NamedSnapshot* const earlier =
      parts == nullptr ? nullptr : parts->Find(terms.part_index);
  const size_t num_freed = earlier == nullptr ? 0 : earlier->keys.size();
  if (num_named_keys_ - num_freed + terms.keys.size() > kMaxNamedKeys) {
    return LimitReached("keys that parts name", kMaxNamedKeys);
  }
  if (parts != nullptr) return parts->Check(terms);
  RETURN_IF_ERROR(CheckNumber(terms, series));
  if (!reserved_.HasRoom()) return NoMoreReserved();
  return SnapshotParts::CheckNumKeys(terms.keys.size());
}

NamedSnapshot& NamedSnapshots::Open(SnapshotTerms terms, uint64_t revision,
                                    absl::Duration now) {
  Series& series = SeriesOf(terms);
  const uint64_t number = terms.number.value_or(series.last_number + 1);
  const bool is_share = terms.is_share || terms.part_count > 0;
  assert(is_share || !series.snapshots.contains(number));
  NamedSnapshot& snapshot =
      is_share ? series.shares[terms.uid] : series.snapshots[number];
  if (!is_share) series.last_number = std::max(series.last_number, number);
  snapshot.uid = terms.uid;
  snapshot.is_share = is_share;
  snapshot.keep_last = terms.keep_last;
  // The account has no bound.
  snapshot.overhead = *Reservation::Create(account_, BytesOf(terms));
  CountOverhead(snapshot.overhead);
  snapshot.series = &series;
  snapshot.number = number;
  snapshot.revision = newest_ = revision;
  snapshot.prefixes = std::move(terms.prefixes);
  snapshot.keys = std::move(terms.keys);
  num_named_keys_ += snapshot.keys.size();
  snapshot.dtype = terms.dtype;
  snapshot.metadata = std::move(terms.metadata);
  snapshot.time_to_live = terms.time_to_live;
  if (!is_share) snapshot.end = now + terms.time_to_live;
  by_uid_[terms.uid] = &snapshot;
  by_revision_.emplace_hint(by_revision_.end(), revision, &snapshot);
  opening_.emplace_hint(opening_.end(), revision, &snapshot);
  prefixes_.Add(&snapshot);
  Reorder(snapshot, [] {});
  return snapshot;
}

bool NamedSnapshots::SetReady(NamedSnapshot& snapshot, absl::Duration now) {
  opening_.erase(snapshot.revision);
  snapshot.is_ready = true;
  if (snapshot.parts != nullptr) {
    ++num_parts_;
    SnapshotParts& parts = *snapshot.parts;
    return parts.AddReady() && NameWhole(parts, snapshot, now);
  }
  if (!snapshot.is_share) Announce(snapshot);
  return !snapshot.is_share;
}

void NamedSnapshots::Announce(NamedSnapshot& snapshot) {
  Series& series = *snapshot.series;
  series.last_taken = std::max(series.last_taken, snapshot.number);
  series.last_ready = std::max(series.last_ready, snapshot.number);
  if (snapshot.number > series.latest) {
    series.latest = snapshot.number;
    series.latest_servers = snapshot.servers;
  }
  if (snapshot.keep_last > 0) {
    series.keep_last = snapshot.keep_last == kKeepAll ? 0 : snapshot.keep_last;
  }
  ++series.num_ready;
  if (snapshot.number < series.leased_until) {
    series.leased_until = series.num_leased_first = 0;
  }
}

// --- Of clusters -------------------------------------------------------------

absl::Status NamedSnapshots::Reserve(SnapshotTerms terms, absl::Duration end) {
  if (!reserved_.HasRoom()) return NoMoreReserved();
  Series& series = SeriesOf(terms);
  reserved_.Reserve(terms.uid,
                    {.series = &series,
                     .number = terms.number.value_or(series.last_number + 1),
                     .is_asked_for = terms.number.has_value(),
                     .end = end});
  return absl::OkStatus();
}

void NamedSnapshots::Name(NamedSnapshot& share, uint64_t number,
                          SnapshotTerms terms, uint64_t bytes,
                          absl::Duration now) {
  // The account has no bound.
  Reservation more = *Reservation::Create(account_, bytes);
  CountOverhead(more);
  share.overhead.Merge(std::move(more));
  reserved_.End(share.uid);
  Series& series = *share.series;
  series.last_number = std::max(series.last_number, number);
  auto node = series.shares.extract(share.uid);
  node.key() = share.number = number;
  assert(!series.snapshots.contains(number));
  series.snapshots.insert(std::move(node));
  share.is_share = false;
  share.metadata = std::move(terms.metadata);
  share.keep_last = terms.keep_last;
  share.time_to_live = terms.time_to_live;
  SetEnd(share, now + share.time_to_live);
  Announce(share);
}

std::vector<uint64_t> NamedSnapshots::UidsAfter(uint64_t* last,
                                                size_t max_uids) const {
  std::vector<uint64_t> uids;
  for (auto it = by_revision_.upper_bound(*last);
       it != by_revision_.end() && uids.size() < max_uids; ++it) {
    CountLook();
    uids.push_back(it->second->uid);
    *last = it->first;
  }
  return uids;
}

// --- Finding -----------------------------------------------------------------

const Series* NamedSnapshots::Find(absl::string_view series) const {
  const auto it = series_.find(series);
  return it == series_.end() ? nullptr : &it->second;
}

Series* NamedSnapshots::Find(absl::string_view series) {
  const auto it = series_.find(series);
  return it == series_.end() ? nullptr : &it->second;
}

absl::StatusOr<Reservation> NamedSnapshots::ReserveSeries(
    absl::string_view name) const {
  return Reservation::Create(metadata_, kSeriesBytes + 2 * name.size());
}

Series& NamedSnapshots::SeriesOf(SnapshotTerms& terms) {
  Series* const known = Find(terms.series);
  return known != nullptr
             ? *known
             : AddSeries(terms.series, std::move(terms.series_overhead));
}

Series& NamedSnapshots::AddSeries(absl::string_view name,
                                  Reservation overhead) {
  Series& series = series_[std::string(name)];
  series.name = std::string(name);
  series.overhead = std::move(overhead);
  return series;
}

absl::Status NamedSnapshots::RestoreSeries(absl::string_view name,
                                           uint64_t latest) {
  Series* series = Find(name);
  if (series == nullptr) {
    ASSIGN_OR_RETURN(Reservation overhead, ReserveSeries(name));
    series = &AddSeries(name, std::move(overhead));
  }
  series->last_number = std::max(series->last_number, latest);
  series->last_taken = std::max(series->last_taken, latest);
  return absl::OkStatus();
}

// --- Former values -----------------------------------------------------------

FormerValuePtr NamedSnapshots::Keep(absl::string_view key, uint64_t since,
                                    uint64_t until, uint64_t bytes) {
  NamedSnapshot& newest = *prefixes_.Newest(key, since, until);
  auto former = MakeRefCounted<FormerValue>();
  former->key = std::string(key);
  former->since = since;
  former->until = until;
  former->bytes = bytes;
  const FormerValues::Iterator kept = former_.Add(former, account_);
  CountOverhead(kept->second.overhead);
  Hold(newest, kept);
  return former;
}

// --- Letting go --------------------------------------------------------------

void NamedSnapshots::Close(NamedSnapshot& snapshot, Cause cause,
                           size_t max_values, LetGo& let_go) {
  if (snapshot.parts == nullptr) {
    CloseOne(snapshot, cause, let_go);
  } else {
    for (NamedSnapshot* const each : TakeParts(snapshot, cause)) {
      CloseOne(*each, cause, let_go);
    }
  }
  Sweep(max_values, let_go);
}

void NamedSnapshots::CloseOne(NamedSnapshot& snapshot, Cause cause,
                              LetGo& let_go) {
  Series& series = *snapshot.series;
  for (auto& by_lease : candidates_) {
    for (ByRevision& candidates : by_lease) candidates.erase(snapshot.revision);
  }
  due_.erase({snapshot.due, snapshot.revision});
  prefixes_.Remove(&snapshot);
  by_revision_.erase(snapshot.revision);
  opening_.erase(snapshot.revision);
  by_uid_.erase(snapshot.uid);
  newest_ = by_revision_.empty() ? 0 : by_revision_.rbegin()->first;
  while (!snapshot.leases.empty()) {
    EndLease(snapshot, snapshot.leases.begin());
  }
  overhead_bytes_ -= snapshot.overhead.bytes();
  Add(leaving_overhead_, snapshot.overhead.bytes(), let_go.overhead);
  num_named_keys_ -= snapshot.keys.size();
  let_go.num_texts += snapshot.keys.size() + snapshot.prefixes.size();
  leftover_bytes_ += snapshot.held_bytes;
  if (!snapshot.held.empty()) leftovers_.push_back(std::move(snapshot.held));
  if (snapshot.is_share) {
    if (snapshot.parts != nullptr) {
      if (snapshot.is_ready) --num_parts_;
    } else if (cause == Cause::kRetained) {
      Remember(snapshot, cause);
      lost_shares_.push_back(snapshot.uid);
    }
    if (lost_shares_.size() > kMaxLostShares) lost_shares_.pop_front();
    let_go.snapshots.push_back(series.shares.extract(snapshot.uid));
  } else {
    Forget(snapshot, cause, let_go);
  }
}

void NamedSnapshots::Forget(NamedSnapshot& snapshot, Cause cause,
                            LetGo& let_go) {
  Series& series = *snapshot.series;
  if (snapshot.is_ready) --series.num_ready;
  bool gives_back = false;
  if (cause != Cause::kAbandoned) {
    Remember(snapshot, cause);
    // Its call may have been told.
    series.last_taken = std::max(series.last_taken, snapshot.number);
  } else if (series.last_number == snapshot.number) {
    gives_back = true;
  }
  auto node = series.snapshots.extract(snapshot.number);
  if (gives_back) reserved_.Lower(series);
  if (cause == Cause::kDeleted && series.latest == node.key()) {
    auto before = series.snapshots.lower_bound(series.latest);
    series.latest = 0;
    series.latest_servers.clear();
    while (series.latest == 0 && before != series.snapshots.begin()) {
      if (!(--before)->second.is_ready) continue;
      series.latest = before->first;
      series.latest_servers = before->second.servers;
    }
  }
  let_go.snapshots.push_back(std::move(node));
}

bool NamedSnapshots::Sweep(size_t max_values, LetGo& let_go) {
  for (; let_go.num_swept < max_values && !leftovers_.empty();
       ++let_go.num_swept) {
    std::vector<FormerValues::Iterator>& values = leftovers_.front();
    const FormerValues::Iterator value = values.back();
    values.pop_back();
    if (values.empty()) leftovers_.pop_front();
    leftover_bytes_ -= value->second.value->bytes;
    PassOn(value, let_go);
  }
  return leftovers_.empty();
}

void NamedSnapshots::PassOn(FormerValues::Iterator value, LetGo& let_go) {
  const FormerValue& former = *value->second.value;
  NamedSnapshot* const heir =
      prefixes_.Newest(former.key, former.since, former.until);
  if (heir == nullptr) {
    const uint64_t overhead = value->second.overhead.bytes();
    overhead_bytes_ -= overhead;
    Add(leaving_overhead_, overhead, let_go.overhead);
    Add(leaving_values_, former.bytes, let_go.value_bytes);
    let_go.values.push_back(former_.Remove(value));
    return;
  }
  Hold(*heir, value);
}

void NamedSnapshots::Hold(NamedSnapshot& snapshot,
                          FormerValues::Iterator value) {
  const bool is_first = snapshot.held.empty();
  if (is_first) CandidatesLike(snapshot).erase(snapshot.revision);
  snapshot.held.push_back(value);
  snapshot.held_bytes += value->second.value->bytes;
  if (is_first) CandidatesLike(snapshot).emplace(snapshot.revision, &snapshot);
}

NamedSnapshot* NamedSnapshots::Victim() const {
  for (const auto& by_lease : candidates_) {
    for (const ByRevision& candidates : by_lease) {
      CountLook();
      if (!candidates.empty()) return candidates.begin()->second;
    }
  }
  return nullptr;
}

NamedSnapshot* NamedSnapshots::Surplus(Series& series) {
  const auto awaited = series.incomplete.begin();
  if (awaited != series.incomplete.end() &&
      awaited->first < series.last_ready) {
    return awaited->second->parts().begin()->second;
  }
  if (series.keep_last == 0) return nullptr;
  auto it = series.snapshots.lower_bound(series.leased_until);
  while (series.num_ready - series.num_leased_first > series.keep_last) {
    CountLook();
    auto& [number, snapshot] = *it++;
    if (snapshot.is_ready && snapshot.leases.empty()) return &snapshot;
    series.leased_until = number + 1;
    if (snapshot.is_ready) ++series.num_leased_first;
  }
  return nullptr;
}

// --- Time --------------------------------------------------------------------

template <typename Change>
void NamedSnapshots::Reorder(NamedSnapshot& snapshot, Change change) {
  const bool was_leased = IsLeased(snapshot);
  CandidatesLike(snapshot).erase(snapshot.revision);
  due_.erase({snapshot.due, snapshot.revision});
  change();
  snapshot.due =
      snapshot.leases.empty() ? snapshot.end : absl::InfiniteDuration();
  for (const auto& [id, lease] : snapshot.leases) {
    CountLook();
    snapshot.due = std::min(snapshot.due, lease.end);
  }
  CandidatesLike(snapshot).emplace(snapshot.revision, &snapshot);
  if (snapshot.due < absl::InfiniteDuration()) {
    due_.emplace(snapshot.due, snapshot.revision);
  }
  if (was_leased != IsLeased(snapshot)) ReorderOthers(snapshot);
}

void NamedSnapshots::SetEnd(NamedSnapshot& snapshot, absl::Duration end) {
  Reorder(snapshot, [&] { snapshot.end = end; });
}

absl::Status NamedSnapshots::Lease(NamedSnapshot& snapshot, SnapshotLeaseId id,
                                   absl::Duration end, absl::Duration now) {
  const auto found = snapshot.leases.find(id);
  if (end <= now) {
    if (found != snapshot.leases.end()) {
      Reorder(snapshot, [&] { EndLease(snapshot, found); });
    }
    return absl::OkStatus();
  }
  if (found != snapshot.leases.end()) {
    Reorder(snapshot, [&] { found->second.end = end; });
    return absl::OkStatus();
  }
  size_t& num_leases = leases_of_[id.caller];
  if (num_leases >= kMaxLeases) {
    return LimitReached("leases of snapshots of a caller", kMaxLeases);
  }
  ++num_leases;
  Reservation overhead = *Reservation::Create(account_, BytesOf(id));
  CountOverhead(overhead);
  Reorder(snapshot, [&] {
    snapshot.leases.emplace(std::move(id),
                            NamedSnapshot::Lease{end, std::move(overhead)});
  });
  return absl::OkStatus();
}

void NamedSnapshots::EndLease(NamedSnapshot& snapshot,
                              NamedSnapshot::Leases::iterator lease) {
  const auto count = leases_of_.find(lease->first.caller);
  if (--count->second == 0) leases_of_.erase(count);
  overhead_bytes_ -= lease->second.overhead.bytes();
  snapshot.leases.erase(lease);
  Series& series = *snapshot.series;
  if (snapshot.leases.empty() && snapshot.number < series.leased_until) {
    series.leased_until = series.num_leased_first = 0;
  }
}

NamedSnapshot* NamedSnapshots::TakeDue(absl::Duration now) {
  if (due_.empty() || due_.begin()->first > now) return nullptr;
  NamedSnapshot& snapshot = *by_revision_.find(due_.begin()->second)->second;
  Reorder(snapshot, [&] {
    for (auto lease = snapshot.leases.begin();
         lease != snapshot.leases.end();) {
      const auto ended = lease++;
      if (ended->second.end <= now) EndLease(snapshot, ended);
    }
  });
  return &snapshot;
}

}  // namespace tensorkv
