// A snapshot that has a name, and its series.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_NAMED_SNAPSHOT_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_NAMED_SNAPSHOT_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/ref_counted.h"
#include "contract/slices.h"
#include "service/store/byte_budget.h"
#include "service/store/key_fence.h"
#include "service/store/keyspace/snapshots/former_values.h"
#include "service/store/keyspace/updates/pending_update.h"
#include "tensor/dtype.h"

namespace tensorkv {

struct Series;
class SnapshotParts;

// What a series keeps if it is to keep all.
inline constexpr uint32_t kKeepAll = UINT32_MAX;

// On which terms a snapshot is taken: what a CreateSnapshot, or a PublishAs,
// says.
struct SnapshotTerms {
  std::string series;
  std::optional<uint64_t> number;
  std::optional<uint64_t> expected_latest;
  // At least one, but for a part that has `keys`; the empty one is of all keys.
  std::vector<std::string> prefixes;
  std::vector<std::string> keys;
  std::map<std::string, std::string> metadata;
  absl::Duration time_to_live = absl::InfiniteDuration();
  uint32_t keep_last = 0;
  // What readers get of wider floats; kUnknown: these themselves.
  DType dtype = DType::kUnknown;
  // That of the snapshot; 0: it has a new one.
  uint64_t uid = 0;
  // Says that it is a share of a cluster's snapshot.
  bool is_share = false;
  // Say which part it is, and of how many the snapshot is made; 0: it is no
  // part.
  uint32_t part_index = 0;
  uint32_t part_count = 0;
  // Counts the series, if that is new; NamedSnapshots::Check sets it.
  Reservation series_overhead;
};

// Names a lease.
struct SnapshotLeaseId {
  std::string caller;
  std::string name;

  friend auto operator<=>(const SnapshotLeaseId&,
                          const SnapshotLeaseId&) = default;
};

// A server's share of a snapshot of a cluster.
struct ServerShare {
  std::string server;
  // Tells the life of the namespace there, in which revisions rise.
  uint64_t incarnation = 0;
  uint64_t revision = 0;
};

// A snapshot. NamedSnapshots changes what is in it.
struct NamedSnapshot {
  struct Lease {
    absl::Duration end;
    Reservation overhead;
  };
  using Leases = std::map<SnapshotLeaseId, Lease>;

  // Returns whether it has keys of that name: a slice has that of its key. Of a
  // part that has others beside it, these count not.
  bool Has(absl::string_view name) const {
    const absl::string_view key = WholeKeyOf(name);
    return std::binary_search(keys.begin(), keys.end(), key) ||
           std::any_of(prefixes.begin(), prefixes.end(),
                       [key](const std::string& prefix) {
                         return absl::StartsWith(key, prefix);
                       });
  }
  bool IsExpired(absl::Duration now) const {
    return leases.empty() && end <= now;
  }

  Series* series = nullptr;
  uint64_t number = 0;
  // Never 0; tells it from all others of the namespace, at all servers.
  uint64_t uid = 0;
  // Says that it is a share of a cluster's snapshot, or, with `parts`, a part,
  // which is found by its uid alone; on no other terms, until it is named, than
  // that it is let go.
  bool is_share = false;
  // Says that all parts of its call are in the share: no call may take another
  // one in its place.
  bool is_sealed = false;
  // The servers that have shares of it, where it is that of a cluster.
  std::vector<ServerShare> servers;
  uint64_t revision = 0;
  std::vector<std::string> prefixes;
  // In order, each once.
  std::vector<std::string> keys;
  // Those that it belongs to, all of which go together; null: it is no part.
  std::shared_ptr<SnapshotParts> parts;
  uint32_t part_index = 0;
  DType dtype = DType::kUnknown;
  std::map<std::string, std::string> metadata;
  absl::Time create_time;
  // Which keys were this server's, whatever else was on its way here, or has
  // stayed; null: all were.
  std::shared_ptr<const OwnedPartitions> owned;
  absl::Duration time_to_live = absl::InfiniteDuration();
  absl::Duration end = absl::InfiniteDuration();
  // Holds for the series once the snapshot is ready, unless it is 0.
  uint32_t keep_last = 0;
  // Of its keys, where these are counted.
  std::optional<uint64_t> num_keys;
  std::optional<uint64_t> bytes;

  bool is_ready = false;
  // Says, until it is ready, that nobody is to see it: whoever has taken it has
  // failed. With `taken_by`, that call says so too.
  bool is_abandoned = false;
  RefPtr<QueuedCall> taken_by;

  Leases leases;
  // The former values that no newer snapshot has.
  std::vector<FormerValues::Iterator> held;
  uint64_t held_bytes = 0;
  // When it, or one of its leases, ends; kept among those that are due.
  absl::Duration due = absl::InfiniteDuration();
  Reservation overhead;
};

// A series of snapshots.
struct Series {
  using Snapshots = std::map<uint64_t, NamedSnapshot>;
  using Map = std::map<std::string, Series, std::less<>>;
  // Why a snapshot has gone; kAbandoned: it was never there; kReplaced: another
  // call makes the part anew.
  enum class Cause {
    kRetained,
    kExpired,
    kKeepLast,
    kShareLost,
    kDeleted,
    kAbandoned,
    kReplaced
  };
  struct Lost {
    uint64_t number = 0;
    uint64_t uid = 0;
    Cause cause = Cause::kRetained;
    // Says that it was never named: its number may be another's.
    bool is_share = false;
  };
  // Bounds what is remembered of those that have gone.
  static constexpr size_t kMostLost = 64;

  // Returns null if there is none of that number.
  const NamedSnapshot* Find(uint64_t number) const {
    const auto it = snapshots.find(number);
    return it == snapshots.end() ? nullptr : &it->second;
  }
  NamedSnapshot* Find(uint64_t number) {
    const auto it = snapshots.find(number);
    return it == snapshots.end() ? nullptr : &it->second;
  }

  std::string name;
  // The highest number that was given.
  uint64_t last_number = 0;
  // The highest that is never given again: it could be read, its call may have
  // been told of it, or another server, or a checkpoint, says that it was
  // given.
  uint64_t last_taken = 0;
  // The highest that could be read: lower ones wait for no more parts.
  uint64_t last_ready = 0;
  // The highest that could be read and was not deleted since, and the shares
  // that it had if it is of a cluster; 0: none.
  uint64_t latest = 0;
  std::vector<ServerShare> latest_servers;
  uint32_t keep_last = 0;
  size_t num_ready = 0;
  // All of its snapshots below that number, so many, are leased.
  uint64_t leased_until = 0;
  size_t num_leased_first = 0;
  Snapshots snapshots;
  // Shares of those of a cluster, and parts, by their uids; but for the part by
  // whose revision a snapshot is called, which is among the snapshots.
  Snapshots shares;
  // The parts, by their numbers, of what is not whole.
  std::map<uint64_t, std::shared_ptr<SnapshotParts>> incomplete;
  // The last ones that have gone, the latest last.
  std::deque<Lost> lost;
  Reservation overhead;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_NAMED_SNAPSHOT_H_
