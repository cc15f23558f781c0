#include "service/store/keyspace/watch/change_log.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"

namespace tensorkv {
namespace {

// Bounds what one locking of the log looks at, and what a reply has.
constexpr size_t kChangesPerLock = 4096;
constexpr size_t kMaxWatchReplyBytes = 256 << 10;

// What a change takes besides its name: the object and its places.
constexpr uint64_t kChangeOverheadBytes = 160;

}  // namespace

struct ChangeLog::Change {
  static std::string IdOf(ChangeKind kind, absl::string_view name) {
    std::string id(1, kind == ChangeKind::kSnapshot ? 's' : 'k');
    id.append(name.data(), name.size());
    return id;
  }

  absl::string_view name() const { return absl::string_view(id).substr(1); }
  uint64_t bytes() const { return kChangeOverheadBytes + id.size(); }
  bool Matches(const WatchFilter& filter) const {
    return kind == ChangeKind::kSnapshot ? filter.MatchesSeries(name())
                                         : filter.MatchesKey(name());
  }
  v1::Change ToProto() const;

  // The name, behind a byte that says whether it is that of a series.
  std::string id;
  uint64_t number = 0;
  uint64_t revision = 0;
  ChangeKind kind = ChangeKind::kValue;
};

v1::Change ChangeLog::Change::ToProto() const {
  v1::Change proto;
  proto.set_revision(revision);
  if (kind == ChangeKind::kSnapshot) {
    proto.set_series(std::string(name()));
    proto.set_number(number);
    return proto;
  }
  proto.set_key(std::string(name()));
  proto.set_version(number);
  proto.set_deleted(kind == ChangeKind::kDelete);
  return proto;
}

struct ChangeLog::Contents {
  absl::btree_map<uint64_t, std::unique_ptr<const Change>> changes;
  // The names are those of the changes.
  absl::flat_hash_map<absl::string_view, uint64_t> by_id;
  uint64_t bytes = 0;
  std::vector<Change> unsettled;
  uint64_t unsettled_bytes = 0;
};

ChangeLog::ChangeLog(uint64_t max_bytes)
    : max_bytes_(max_bytes), contents_(std::make_unique<Contents>()) {}

ChangeLog::~ChangeLog() = default;

bool WatchFilter::MatchesKey(absl::string_view name) const {
  return (prefix && absl::StartsWith(name, *prefix)) || (key && name == *key);
}

bool WatchFilter::MatchesSeries(absl::string_view name) const {
  return series && (series->empty() || name == *series);
}

void ChangeLog::Add(const RecentChanges::Batch& batch) {
  MutexLock lock(&mutex_);
  std::vector<Change> settled = Settle(batch);
  if (batch.is_lost || contents_->unsettled_bytes > max_bytes_) {
    ClearLocked();
    return;
  }
  for (Change& change : settled) Insert(std::move(change));
  while (contents_->bytes > max_bytes_) {
    floor_ = contents_->changes.begin()->first;
    Erase(floor_);
  }
}

std::vector<ChangeLog::Change> ChangeLog::Settle(
    const RecentChanges::Batch& batch) {
  const uint64_t told = std::max(this->told(), batch.told);
  told_.store(told, std::memory_order_release);
  std::vector<Change> settled = std::exchange(contents_->unsettled, {});
  for (const RecentChanges::Entry& entry : batch.entries) {
    const auto name = absl::string_view(batch.names)
                          .substr(entry.name_begin, entry.name_size);
    settled.push_back({.id = Change::IdOf(entry.kind, name),
                       .number = entry.number,
                       .revision = entry.revision,
                       .kind = entry.kind});
  }
  const auto rest = std::stable_partition(
      settled.begin(), settled.end(),
      [told](const Change& each) { return each.revision <= told; });
  contents_->unsettled.assign(std::make_move_iterator(rest),
                              std::make_move_iterator(settled.end()));
  settled.erase(rest, settled.end());
  contents_->unsettled_bytes = 0;
  for (const Change& each : contents_->unsettled) {
    contents_->unsettled_bytes += each.bytes();
  }
  // Those of one key are in order, and stay so.
  std::stable_sort(
      settled.begin(), settled.end(),
      [](const Change& a, const Change& b) { return a.revision < b.revision; });
  return settled;
}

void ChangeLog::Insert(Change change) {
  const auto former = contents_->by_id.find(change.id);
  if (former != contents_->by_id.end()) Erase(former->second);
  const uint64_t position = last() + 1;
  auto owned = std::make_unique<const Change>(std::move(change));
  contents_->bytes += owned->bytes();
  contents_->by_id.emplace(owned->id, position);
  contents_->changes.emplace_hint(contents_->changes.end(), position,
                                  std::move(owned));
  last_.store(position, std::memory_order_release);
}

void ChangeLog::Erase(uint64_t position) {
  const auto it = contents_->changes.find(position);
  contents_->bytes -= it->second->bytes();
  contents_->by_id.erase(it->second->id);
  contents_->changes.erase(it);
}

std::shared_ptr<const void> ChangeLog::Clear() {
  MutexLock lock(&mutex_);
  return ClearLocked();
}

std::unique_ptr<ChangeLog::Contents> ChangeLog::ClearLocked() {
  floor_ = last() + 1;
  last_.store(floor_, std::memory_order_release);
  return std::exchange(contents_, std::make_unique<Contents>());
}

bool ChangeLog::Covers(uint64_t position) const {
  MutexLock lock(&mutex_);
  return position >= floor_;
}

bool ChangeLog::Read(const WatchFilter& filter, uint64_t not_before,
                     size_t max_changes, uint64_t& position,
                     WatchReply& reply) const {
  for (size_t bytes = 0;;) {
    MutexLock lock(&mutex_);
    if (position < floor_) return false;
    if (told() < not_before) return true;
    if (!ReadSome(filter, max_changes, position, bytes, reply)) return true;
  }
}

bool ChangeLog::ReadSome(const WatchFilter& filter, size_t max_changes,
                         uint64_t& position, size_t& bytes,
                         WatchReply& reply) const {
  const auto& changes = contents_->changes;
  auto it = changes.upper_bound(position);
  for (size_t i = 0; i < kChangesPerLock; ++i, ++it) {
    if (it == changes.end()) {
      position = last();
      reply.set_revision(told());
      return false;
    }
    const Change& change = *it->second;
    if (change.Matches(filter)) {
      const auto num_changes = static_cast<size_t>(reply.changes_size());
      if (num_changes == max_changes || bytes > kMaxWatchReplyBytes) {
        reply.set_has_more(true);
        return false;
      }
      *reply.add_changes() = change.ToProto();
      bytes += change.id.size();
    }
    position = it->first;
  }
  return true;
}

}  // namespace tensorkv
