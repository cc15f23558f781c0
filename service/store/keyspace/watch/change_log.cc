#include "service/store/keyspace/watch/change_log.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "contract/slices.h"

namespace tensorkv {
namespace {

// Bound what one locking of the log looks at, and what a reply has.
constexpr size_t kChangesPerLock = 4096;
constexpr size_t kMaxWatchReplyBytes = 256 << 10;

v1::Change ToProto(const RecordedChange& change) {
  v1::Change proto;
  proto.set_revision(change.revision);
  if (change.kind == ChangeKind::kSnapshot) {
    proto.set_series(change.name);
    proto.set_number(change.number);
    return proto;
  }
  proto.set_key(change.name);
  proto.set_version(change.number);
  proto.set_deleted(change.kind == ChangeKind::kDelete);
  return proto;
}

KeyTelling TellingOf(const LogReading& reading, const RecordedChange& change) {
  if (change.kind == ChangeKind::kSnapshot) {
    // The home has the empty key.
    return reading.filter.MatchesSeries(change.name) ? reading.telling("")
                                                     : KeyTelling::kSkipped;
  }
  return reading.filter.MatchesKey(change.name) ? reading.telling(change.name)
                                                : KeyTelling::kSkipped;
}

}  // namespace

struct ChangeLog::Contents {
  using ByName = absl::flat_hash_map<absl::string_view, uint64_t>;

  ByName& By(ChangeKind kind) {
    return kind == ChangeKind::kSnapshot ? by_series : by_key;
  }

  absl::btree_map<uint64_t, std::unique_ptr<const RecordedChange>> changes;
  // The names are those of the changes.
  ByName by_key;
  ByName by_series;
  uint64_t bytes = 0;
};

ChangeLog::ChangeLog(std::shared_ptr<ChangeMemory> memory)
    : memory_(std::move(memory)), contents_(std::make_unique<Contents>()) {}

ChangeLog::~ChangeLog() { memory_->Leave(this); }

bool WatchFilter::MatchesKey(absl::string_view name) const {
  if (key && name == *key) return true;
  if (!prefix || !absl::StartsWith(name, *prefix)) return false;
  return !absl::StartsWith(name, kSliceMark) ||
         absl::StartsWith(*prefix, kSliceMark);
}

bool WatchFilter::MatchesSeries(absl::string_view name) const {
  return series && (series->empty() || name == *series);
}

void ChangeLog::Add(RecentChanges::Batch batch) {
  if (!std::exchange(has_joined_, true)) {
    memory_->Join(this, [this] { Trim(); });
  }
  const uint64_t told = std::max(this->told(), batch.told);
  std::vector<RecordedChange> settled = Settle(batch, told);
  if (batch.is_lost || unsettled_bytes_ > memory_->share() / 4) {
    Break();
    Clear();
  } else {
    for (auto rest = absl::MakeSpan(settled); !rest.empty();) {
      const size_t size = std::min(rest.size(), kChangesPerLock);
      MutexLock lock(&mutex_);
      InsertAll(rest.first(size));
      rest.remove_prefix(size);
    }
  }
  // Whoever finds this finds all of them.
  told_.store(told, std::memory_order_release);
}

std::vector<RecordedChange> ChangeLog::Settle(RecentChanges::Batch& batch,
                                              uint64_t told) {
  std::vector<RecordedChange> settled = std::exchange(unsettled_, {});
  std::move(batch.changes.begin(), batch.changes.end(),
            std::back_inserter(settled));
  const auto rest = std::stable_partition(
      settled.begin(), settled.end(),
      [told](const RecordedChange& each) { return each.revision <= told; });
  unsettled_.assign(std::make_move_iterator(rest),
                    std::make_move_iterator(settled.end()));
  settled.erase(rest, settled.end());
  unsettled_bytes_ = 0;
  for (const RecordedChange& each : unsettled_)
    unsettled_bytes_ += each.bytes();
  std::stable_sort(settled.begin(), settled.end(),
                   [](const RecordedChange& a, const RecordedChange& b) {
                     return a.revision < b.revision;
                   });
  return settled;
}

void ChangeLog::InsertAll(absl::Span<RecordedChange> changes) {
  for (RecordedChange& change : changes) {
    Insert(std::move(change));
    // It may be that the log has to shrink by more than was added.
    TrimSome(/*max_changes=*/2);
  }
  bytes_.store(contents_->bytes, std::memory_order_relaxed);
}

void ChangeLog::Insert(RecordedChange change) {
  Contents::ByName& by_name = contents_->By(change.kind);
  const auto former = by_name.find(change.name);
  if (former != by_name.end()) {
    const RecordedChange& before =
        *contents_->changes.find(former->second)->second;
    // A snapshot of a lower number may be ready later.
    if (before.kind == change.kind && before.number > change.number) return;
    Erase(former->second);
  }
  if (change.kind == ChangeKind::kGone) return;
  const uint64_t position = last() + 1;
  auto owned = std::make_unique<const RecordedChange>(std::move(change));
  contents_->bytes += owned->bytes();
  by_name.emplace(owned->name, position);
  contents_->changes.emplace_hint(contents_->changes.end(), position,
                                  std::move(owned));
  last_.store(position, std::memory_order_release);
}

void ChangeLog::Erase(uint64_t position) {
  const auto it = contents_->changes.find(position);
  contents_->bytes -= it->second->bytes();
  contents_->By(it->second->kind).erase(it->second->name);
  contents_->changes.erase(it);
}

void ChangeLog::Trim() {
  for (bool has_more = true; has_more;) {
    MutexLock lock(&mutex_);
    has_more = TrimSome(kChangesPerLock);
    bytes_.store(contents_->bytes, std::memory_order_relaxed);
  }
}

bool ChangeLog::TrimSome(size_t max_changes) {
  const uint64_t max_bytes = memory_->share() / 2;
  for (size_t i = 0; i < max_changes && contents_->bytes > max_bytes; ++i) {
    const uint64_t oldest = contents_->changes.begin()->first;
    RaiseFloor(oldest);
    Erase(oldest);
  }
  return contents_->bytes > max_bytes;
}

void ChangeLog::RaiseFloor(uint64_t floor) {
  uint64_t now = floor_.load();
  while (now < floor && !floor_.compare_exchange_weak(now, floor)) {
  }
}

// Whoever finds the new position as the last one finds the floor there, too.
void ChangeLog::Break() {
  const uint64_t position = last() + 1;
  RaiseFloor(position);
  last_.store(position, std::memory_order_release);
}

void ChangeLog::Clear() {
  unsettled_ = {};
  unsettled_bytes_ = 0;
  auto forgotten = std::make_unique<Contents>();  // it goes without the mutex
  {
    MutexLock lock(&mutex_);
    std::swap(contents_, forgotten);
    bytes_.store(0, std::memory_order_relaxed);
  }
  if (std::exchange(has_joined_, false)) memory_->Leave(this);
}

bool ChangeLog::Read(const LogReading& reading, uint64_t& position,
                     WatchReply& reply) const {
  size_t bytes = 0;
  for (size_t i = 0; i < reading.max_locks; ++i) {
    MutexLock lock(&mutex_);
    const uint64_t end = last();  // before Covers: see Break
    if (!Covers(position)) return false;
    if (told() < reading.not_before) return true;
    if (!ReadSome(reading, end, position, bytes, reply)) return true;
  }
  reply.set_has_more(true);
  return true;
}

bool ChangeLog::ReadSome(const LogReading& reading, uint64_t end,
                         uint64_t& position, size_t& bytes,
                         WatchReply& reply) const {
  const auto& changes = contents_->changes;
  const uint64_t told = this->told();
  auto it = changes.upper_bound(position);
  for (size_t i = 0; i < kChangesPerLock; ++i, ++it) {
    if (it == changes.end()) {
      position = std::max(position, end);
      reply.set_revision(told);
      return false;
    }
    const RecordedChange& change = *it->second;
    const KeyTelling telling = TellingOf(reading, change);
    if (telling == KeyTelling::kLater) return false;
    if (telling == KeyTelling::kTold) {
      const auto num_changes = static_cast<size_t>(reply.changes_size());
      if (num_changes == reading.max_changes || bytes > kMaxWatchReplyBytes) {
        reply.set_has_more(true);
        return false;
      }
      *reply.add_changes() = ToProto(change);
      bytes += change.name.size();
    }
    position = it->first;
  }
  return true;
}

bool ChangeLog::Visit(
    uint64_t& position,
    absl::FunctionRef<void(uint64_t position, const RecordedChange&)> visit)
    const {
  MutexLock lock(&mutex_);
  const uint64_t end = last();  // before Covers: see Break
  if (!Covers(position)) return false;
  const auto& changes = contents_->changes;
  auto it = changes.upper_bound(position);
  for (size_t i = 0; i < kChangesPerLock && it != changes.end(); ++i, ++it) {
    visit(it->first, *it->second);
    position = it->first;
  }
  if (it == changes.end()) position = std::max(position, end);
  return true;
}

}  // namespace tensorkv
