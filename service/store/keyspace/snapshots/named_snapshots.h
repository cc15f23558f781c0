// The snapshots of a namespace that have names: what there is of each series,
// and the former values that they need.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_NAMED_SNAPSHOTS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_NAMED_SNAPSHOTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/ref_counted.h"
#include "service/store/byte_budget.h"
#include "service/store/keyspace/snapshots/former_values.h"
#include "service/store/keyspace/snapshots/named_snapshot.h"
#include "service/store/keyspace/snapshots/prefix_index.h"
#include "service/store/keyspace/snapshots/reserved_numbers.h"
#include "service/store/keyspace/snapshots/snapshot_parts.h"
#include "service/store/memory_budgets.h"

namespace tensorkv {

// Guarded by the namespace's mutex; knows nothing of keys, clocks and calls.
//
// A snapshot is opened at the revision of the change that it is of, and is
// ready once all effects up to there have ended. A former value is kept once,
// for all snapshots that have it, and belongs to the newest of these, or to an
// older one if a change since has left the value as it was: when that goes, the
// value passes to the newest of the others, or goes too. So a change of a key
// looks up one snapshot, however many there are, and a snapshot that goes costs
// what belongs to it, some of which may be left for later.
class NamedSnapshots {
 public:
  // Things that are to be destroyed without the mutex, and before the
  // snapshots.
  struct LetGo {
    // Count what of `leaving` goes with them, and so go last.
    Reservation overhead;
    Reservation value_bytes;
    std::vector<FormerValues::Node> values;
    std::vector<Series::Snapshots::node_type> snapshots;
    // Counts what Sweep has looked at, and the keys and prefixes that snapshots
    // had.
    size_t num_swept = 0;
    size_t num_texts = 0;
  };
  using Cause = Series::Cause;

  // `account` counts what snapshots take besides values, `metadata` what stays
  // of their series. Both outlive this.
  NamedSnapshots(const RefPtr<BudgetAccount>& account,
                 const RefPtr<BudgetAccount>& metadata);

  // --- Opening ---------------------------------------------------------------

  // Return what snapshots, names of shares, and leases take besides values.
  static uint64_t BytesOf(const SnapshotTerms& terms);
  static uint64_t BytesOf(const std::map<std::string, std::string>& metadata,
                          const std::vector<ServerShare>& servers);
  static uint64_t BytesOf(const SnapshotLeaseId& id);
  // Checks that a snapshot can be opened on these terms, and reserves for its
  // series. Errors: FailedPrecondition (SNAPSHOT_NUMBER_PASSED) · Aborted
  // (SNAPSHOT_CONFLICT) · ResourceExhausted (LIMIT_REACHED, OVER_BUDGET).
  absl::Status Check(SnapshotTerms& terms) const;
  // Opens a snapshot, which is not ready yet. REQUIRES: Check is OK, and no
  // other snapshot has that revision or a higher one. A share, and a part,
  // leave the numbers of their series as they are.
  NamedSnapshot& Open(SnapshotTerms terms, uint64_t revision,
                      absl::Duration now);
  // Returns the first snapshot that is not ready though it can be: all effects
  // up to `told` have ended; null if there is none.
  NamedSnapshot* NextReady(uint64_t told) const {
    if (opening_.empty()) return nullptr;
    const auto& [revision, snapshot] = *opening_.begin();
    return revision <= told && !former_.IsAwaited(revision) ? snapshot
                                                            : nullptr;
  }
  // Says that the snapshot, which NextReady has returned, can be read. Returns
  // whether its number can: no share has one, and of parts the last one gets
  // it.
  bool SetReady(NamedSnapshot& snapshot, absl::Duration now);

  // --- Of parts (named_parts.cc) ---------------------------------------------

  // Returns what there is of a number that waits for parts, and has not passed;
  // null if there is nothing.
  SnapshotParts* FindParts(absl::string_view series, uint64_t number) const;
  // Opens a part, for which others may wait. REQUIRES: what Open does, and this
  // part is not there.
  NamedSnapshot& OpenPart(SnapshotTerms terms, uint64_t revision,
                          absl::Duration now);
  // Returns the last number that the series has given, but for those that wait
  // for parts which have not come.
  uint64_t LastWhole(const Series& series) const;

  // --- Of clusters -----------------------------------------------------------

  // Gives the number of the terms until `end`. REQUIRES: they have a uid, and
  // Check is OK. Errors: ResourceExhausted (LIMIT_REACHED).
  absl::Status Reserve(SnapshotTerms terms, absl::Duration end);
  ReservedNumbers& reserved() { return reserved_; }
  // Gives a share that is ready a number, and the terms on which it stays,
  // which take so many bytes.
  void Name(NamedSnapshot& share, uint64_t number, SnapshotTerms terms,
            uint64_t bytes, absl::Duration now);
  // Returns null if there is none, and no share, of that uid.
  NamedSnapshot* FindUid(uint64_t uid) const {
    const auto it = by_uid_.find(uid);
    return it == by_uid_.end() ? nullptr : it->second;
  }
  // Returns some uids of those with revisions after `*last`, and sets that to
  // the last one's.
  std::vector<uint64_t> UidsAfter(uint64_t* last, size_t max_uids) const;
  // Returns those of shares that were let go of late for want of memory.
  const std::deque<uint64_t>& lost_shares() const { return lost_shares_; }

  // --- Finding ---------------------------------------------------------------

  // Counts those that are made of parts once.
  size_t num_ready() const {
    return by_revision_.size() - opening_.size() - num_parts_;
  }
  // Return null if there is no such series.
  const Series* Find(absl::string_view series) const;
  Series* Find(absl::string_view series);
  const Series::Map& series() const { return series_; }

  // Has a series have given numbers up to `latest`. Errors: ResourceExhausted.
  absl::Status RestoreSeries(absl::string_view name, uint64_t latest);

  // --- Former values ---------------------------------------------------------

  // Returns the revision of the newest; 0 if there is none.
  uint64_t newest() const { return newest_; }
  // Returns the newest snapshot with a revision in [since, until) that has keys
  // of that name; null if there is none.
  NamedSnapshot* NewestOf(absl::string_view key, uint64_t since,
                          uint64_t until) const {
    return since <= newest_ ? prefixes_.Newest(key, since, until) : nullptr;
  }
  // Keeps a value of `bytes` that a key has from `since` on until before
  // `until`; its tensor is yet to be taken. REQUIRES: NewestOf returns
  // one.
  FormerValuePtr Keep(absl::string_view key, uint64_t since, uint64_t until,
                      uint64_t bytes);
  // Does what FormerValues::TryExtend does.
  bool TryExtend(absl::string_view key, uint64_t since, uint64_t until,
                 const Buffer* value) {
    return former_.TryExtend(key, since, until, value);
  }
  // Say that the value's tensor is waited for; take it, unless nobody has the
  // value any more.
  void Await(FormerValue& former) { former_.Await(former); }
  void Take(FormerValue& former, Tensor value, Version version) {
    former_.Take(former, std::move(value), version);
  }
  // Returns the value that the key had at `revision` and has no more; null if
  // there is none.
  const FormerValue* FindFormer(absl::string_view key,
                                uint64_t revision) const {
    return former_.Find(key, revision);
  }
  // Does what FormerValues::FindVersion does.
  const FormerValue* FindVersion(absl::string_view key, Version version,
                                 uint64_t revision) const {
    return former_.FindVersion(key, version, revision);
  }
  const FormerValues& former() const { return former_; }

  // --- Letting go ------------------------------------------------------------

  // Lets a snapshot go, and all parts that belong to it. A part that waits for
  // others goes alone if it is kAbandoned, and is yet to come, or kReplaced:
  // then it comes at once. Values are left for Sweep, with `max_values`.
  void Close(NamedSnapshot& snapshot, Cause cause, size_t max_values,
             LetGo& let_go);
  // Looks at what snapshots have left, until `let_go` has seen `max_values`.
  // Returns whether that was all.
  bool Sweep(size_t max_values, LetGo& let_go);
  bool has_leftovers() const { return !leftovers_.empty(); }
  // Return the snapshot that goes first where too much is retained, and the
  // oldest of the ready ones of which a series has too many, or a part of a
  // number that has passed; null if there is none.
  NamedSnapshot* Victim() const;
  static NamedSnapshot* Surplus(Series& series);

  // Return the bytes that are retained, and how many of these are left over:
  // values of them, and what snapshots take besides.
  uint64_t value_bytes() const { return former_.value_bytes(); }
  uint64_t overhead_bytes() const { return overhead_bytes_; }
  uint64_t leftover_bytes() const { return leftover_bytes_; }
  // Returns what is in use yet though it was let go: until that is destroyed.
  BytesNeeded leaving() const {
    return {.host = leaving_overhead_->used_bytes(),
            .device = leaving_values_->used_bytes() + leftover_bytes_};
  }

  // --- Time ------------------------------------------------------------------

  // Gives the caller a lease until `end`, or renews it; lets go of it if `end`
  // has passed. Errors: ResourceExhausted (LIMIT_REACHED).
  absl::Status Lease(NamedSnapshot& snapshot, SnapshotLeaseId id,
                     absl::Duration end, absl::Duration now);
  // Returns when something ends next.
  absl::Duration next_due() const {
    return due_.empty() ? absl::InfiniteDuration() : due_.begin()->first;
  }
  // Ends the leases of one snapshot of which something has ended by `now`, and
  // returns it; null if there is none. One that IsExpired then is to be closed.
  NamedSnapshot* TakeDue(absl::Duration now);

 private:
  using ByRevision = std::map<uint64_t, NamedSnapshot*>;

  // Returns what counts a new series.
  absl::StatusOr<Reservation> ReserveSeries(absl::string_view name) const;
  Series& AddSeries(absl::string_view name, Reservation overhead);
  // Returns the series of the terms, a new one if need be.
  Series& SeriesOf(SnapshotTerms& terms);
  // Checks that a part can come. Errors: those of Check.
  absl::Status CheckPart(const SnapshotTerms& terms,
                         const Series* series) const;
  // Names the whole of these parts, if its number has not passed. Returns
  // whether it is named.
  bool NameWhole(SnapshotParts& parts, NamedSnapshot& last, absl::Duration now);
  // Ends what waits for parts: its number is given again if it is the last.
  void EndParts(Series& series, const SnapshotParts& parts);
  // Returns the snapshots that go with this one.
  std::vector<NamedSnapshot*> TakeParts(NamedSnapshot& snapshot, Cause cause);
  void CloseOne(NamedSnapshot& snapshot, Cause cause, LetGo& let_go);
  // Takes a snapshot that is no share out of its series.
  void Forget(NamedSnapshot& snapshot, Cause cause, LetGo& let_go);
  // Have the snapshot among those that go in that order, or not.
  ByRevision& CandidatesLike(const NamedSnapshot& snapshot) {
    return candidates_[snapshot.held.empty()][IsLeased(snapshot)];
  }
  // Returns whether the snapshot, or the whole of which it is a part, is
  // leased.
  static bool IsLeased(const NamedSnapshot& snapshot);
  // Has the other parts be among those that are leased, or not, as the head is.
  void ReorderOthers(const NamedSnapshot& head);
  // Makes a snapshot that is ready the latest, or one of those before.
  void Announce(NamedSnapshot& snapshot);
  // Changes leases, or the end, on which the next end and the order of going
  // depend; looks at all leases.
  template <typename Change>
  void Reorder(NamedSnapshot& snapshot, Change change);
  void SetEnd(NamedSnapshot& snapshot, absl::Duration end);
  // Has the value belong to the snapshot.
  void Hold(NamedSnapshot& snapshot, FormerValues::Iterator value);
  // Passes the value to the newest snapshot that has it yet, or lets it go.
  void PassOn(FormerValues::Iterator value, LetGo& let_go);
  void EndLease(NamedSnapshot& snapshot, NamedSnapshot::Leases::iterator lease);
  void CountOverhead(const Reservation& overhead) {
    overhead_bytes_ += overhead.bytes();
  }

  const RefPtr<BudgetAccount> account_;
  const RefPtr<BudgetAccount> metadata_;
  const RefPtr<BudgetAccount> leaving_overhead_;
  const RefPtr<BudgetAccount> leaving_values_;
  Series::Map series_;
  ByRevision by_revision_;
  absl::flat_hash_map<uint64_t, NamedSnapshot*> by_uid_;
  ReservedNumbers reserved_;
  std::deque<uint64_t> lost_shares_;
  // Those that are not ready.
  ByRevision opening_;
  uint64_t newest_ = 0;
  // Counts the parts that are ready, but for heads.
  size_t num_parts_ = 0;
  // Counts the keys that parts name.
  size_t num_named_keys_ = 0;
  PrefixIndex prefixes_;
  FormerValues former_;
  // By whether nothing belongs to them, and then by whether they are leased.
  std::array<std::array<ByRevision, 2>, 2> candidates_;
  std::set<std::pair<absl::Duration, uint64_t>> due_;
  absl::flat_hash_map<std::string, size_t> leases_of_;
  // What belonged to snapshots that have gone; none is empty.
  std::deque<std::vector<FormerValues::Iterator>> leftovers_;
  uint64_t leftover_bytes_ = 0;
  uint64_t overhead_bytes_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_NAMED_SNAPSHOTS_H_
