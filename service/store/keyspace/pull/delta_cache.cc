#include "service/store/keyspace/pull/delta_cache.h"

#include <algorithm>

namespace tensorkv {
namespace {

// Bounds what an entry takes besides the delta's bytes and the key's name, with
// some takers.
constexpr uint64_t kCacheEntryBytes = 512;
// Says for how long a delta is kept that nobody asks for.
constexpr absl::Duration kKeptFor = absl::Minutes(1);

}  // namespace

DeltaCache::DeltaCache(const ServerBudgets* budgets, const Alarms* alarms)
    : budgets_(*budgets),
      alarms_(*alarms),
      account_(MakeRefCounted<BudgetAccount>(budgets->deltas())) {}

DeltaCache::Found DeltaCache::Get(const DeltaId& id,
                                  const std::shared_ptr<DeltaTaker>& taker,
                                  size_t index, CachedDeltaPtr* delta) {
  {
    MutexLock lock(&mutex_);
    const auto it = entries_.find(id);
    if (it != entries_.end()) return GetEntry(it->second, taker, index, delta);
  }
  absl::StatusOr<Reservation> overhead =
      Reserve(kCacheEntryBytes + id.key.size());
  if (!overhead.ok()) return Found::kNoRoom;
  MutexLock lock(&mutex_);
  const auto [it, is_new] = entries_.try_emplace(id);
  Entry& entry = it->second;
  if (!is_new) return GetEntry(entry, taker, index, delta);
  entry.overhead = *std::move(overhead);
  entry.waiting.push_back({taker, index});
  return Found::kMissing;
}

DeltaCache::Found DeltaCache::GetEntry(Entry& entry,
                                       const std::shared_ptr<DeltaTaker>& taker,
                                       size_t index, CachedDeltaPtr* delta) {
  if (!entry.is_encoded) {
    entry.waiting.push_back({taker, index});
    return Found::kAwaited;
  }
  order_.splice(order_.end(), order_, entry.place);
  entry.used = alarms_.Now();
  *delta = entry.delta;
  return Found::kThere;
}

bool DeltaCache::IsAwaited(const DeltaId& id) {
  for (;;) {
    Waiting last;
    Dropped dropped;
    {
      MutexLock lock(&mutex_);
      const auto it = entries_.find(id);
      std::vector<Waiting>& waiting = it->second.waiting;
      if (waiting.empty()) {
        dropped.push_back(entries_.extract(it));
        return false;
      }
      last = waiting.back();
    }
    if (last.taker->IsWaiting()) return true;
    MutexLock lock(&mutex_);
    std::vector<Waiting>& waiting = entries_.find(id)->second.waiting;
    // More may have come since.
    waiting.erase(std::remove_if(waiting.begin(), waiting.end(),
                                 [&](const Waiting& each) {
                                   return each.taker == last.taker;
                                 }),
                  waiting.end());
  }
}

void DeltaCache::Add(const DeltaId& id, const CachedDeltaPtr& delta) {
  num_encoded_.fetch_add(1, std::memory_order_relaxed);
  std::vector<Waiting> waiting;
  {
    MutexLock lock(&mutex_);
    const auto it = entries_.find(id);
    Entry& entry = it->second;
    waiting.swap(entry.waiting);
    entry.is_encoded = true;
    entry.delta = delta;
    entry.used = alarms_.Now();
    entry.place = order_.insert(order_.end(), &it->first);
    encoded_bytes_ += entry.bytes();
  }
  Tell(waiting, delta);
}

void DeltaCache::Abandon(const DeltaId& id) {
  Dropped dropped;
  {
    MutexLock lock(&mutex_);
    dropped.push_back(entries_.extract(entries_.find(id)));
  }
  Tell(dropped.front().mapped().waiting, nullptr);
}

void DeltaCache::Tell(const std::vector<Waiting>& waiting,
                      const CachedDeltaPtr& delta) {
  for (const Waiting& each : waiting) each.taker->Take(each.index, delta);
}

absl::StatusOr<Reservation> DeltaCache::Reserve(uint64_t bytes) {
  const uint64_t room = budgets_.RoomForDeltas();
  ByteBudget& budget = *budgets_.deltas();
  budget.SetLimit(room);
  absl::StatusOr<Reservation> reservation =
      Reservation::Create(account_, bytes);
  if (reservation.ok() || bytes > room) return reservation;
  const uint64_t needed = SumOfBytes(budget.used_bytes(), bytes);
  if (needed > room) DropBytes(needed - room);
  return Reservation::Create(account_, bytes);
}

bool DeltaCache::IsAboveRoom() const {
  return budgets_.deltas()->used_bytes() > budgets_.RoomForDeltas();
}

bool DeltaCache::Trim() {
  const uint64_t room = budgets_.RoomForDeltas();
  const uint64_t used = budgets_.deltas()->used_bytes();
  if (used > room) DropBytes(used - room);
  Dropped dropped;
  MutexLock lock(&mutex_);
  const absl::Duration oldest = alarms_.Now() - kKeptFor;
  while (!order_.empty() &&
         entries_.find(*order_.front())->second.used <= oldest) {
    DropOldest(dropped);
  }
  return !order_.empty();
}

void DeltaCache::DropOldest(Dropped& dropped) {
  const auto oldest = entries_.find(*order_.front());
  encoded_bytes_ -= oldest->second.bytes();
  order_.pop_front();
  dropped.push_back(entries_.extract(oldest));
}

void DeltaCache::DropBytes(uint64_t bytes) {
  Dropped dropped;
  MutexLock lock(&mutex_);
  const uint64_t left = encoded_bytes_ - std::min(encoded_bytes_, bytes);
  while (encoded_bytes_ > left) DropOldest(dropped);
}

}  // namespace tensorkv
