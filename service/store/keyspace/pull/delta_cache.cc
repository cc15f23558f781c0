#include "service/store/keyspace/pull/delta_cache.h"

#include <random>

namespace tensorkv {
namespace {

// What an entry takes besides the delta's bytes and twice the key's name.
constexpr uint64_t kOverheadBytes = 512;

uint64_t RandomNumber() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace

DeltaCache::DeltaCache(uint64_t max_bytes, const RefPtr<ByteBudget>& budget)
    : incarnation_(RandomNumber()),
      max_bytes_(max_bytes),
      account_(MakeRefCounted<BudgetAccount>(budget)) {}

bool DeltaCache::Get(const DeltaId& id, Done done) {
  MadeDeltaPtr delta;
  {
    MutexLock lock(&mutex_);
    const auto found = kept_.entries.find(id);
    if (found == kept_.entries.end()) {
      std::vector<Done>& waiting = waiting_[id];
      waiting.push_back(std::move(done));
      const bool is_first = waiting.size() == 1;
      (is_first ? counts_.made : counts_.shared) += 1;
      return is_first;
    }
    ++counts_.shared;
    kept_.order.splice(kept_.order.end(), kept_.order, found->second.place);
    delta = found->second.delta;
  }
  std::move(done)(delta);
  return false;
}

uint64_t DeltaCache::BytesOf(const DeltaId& id, uint64_t delta_bytes) {
  return kOverheadBytes + 2 * id.key.size() + delta_bytes;
}

Reservation DeltaCache::Reserve(uint64_t bytes) const {
  if (bytes > max_bytes_) return {};
  // What snapshots and deltas take has a bound only where it is asked for.
  absl::StatusOr<Reservation> reservation =
      Reservation::Create(account_, bytes);
  return reservation.ok() ? *std::move(reservation) : Reservation();
}

void DeltaCache::Add(const DeltaId& id, MadeDeltaPtr delta,
                     Reservation overhead) {
  std::vector<Done> waiting;
  // They are destroyed without the mutex.
  std::vector<MadeDeltaPtr> dropped;
  {
    MutexLock lock(&mutex_);
    const auto it = waiting_.find(id);
    waiting = std::move(it->second);
    waiting_.erase(it);
    if (overhead.bytes() > 0) {
      Kept::Entry& entry = kept_.entries[id];
      entry.bytes = overhead.bytes() + (delta ? delta->bytes.size_bytes() : 0);
      entry.delta = delta;
      entry.overhead = std::move(overhead);
      entry.place = kept_.order.insert(kept_.order.end(), id);
      kept_.bytes += entry.bytes;
    }
    Trim(dropped);
  }
  for (Done& done : waiting) std::move(done)(delta);
}

void DeltaCache::Trim(std::vector<MadeDeltaPtr>& dropped) {
  while (kept_.bytes > max_bytes_) {
    const auto oldest = kept_.entries.find(kept_.order.front());
    kept_.bytes -= oldest->second.bytes;
    dropped.push_back(std::move(oldest->second.delta));
    kept_.entries.erase(oldest);
    kept_.order.pop_front();
  }
}

DeltaCache::Kept DeltaCache::Clear() {
  MutexLock lock(&mutex_);
  return std::exchange(kept_, Kept());
}

void DeltaCache::Count(const ChangeCounts& reply) {
  MutexLock lock(&mutex_);
  counts_.unchanged += reply.unchanged;
  counts_.deltas += reply.deltas;
  counts_.delta_bytes += reply.delta_bytes;
  counts_.wholes += reply.wholes;
  counts_.whole_bytes += reply.whole_bytes;
}

ChangeCounts DeltaCache::counts() const {
  MutexLock lock(&mutex_);
  return counts_;
}

}  // namespace tensorkv
