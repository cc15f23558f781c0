#include "service/store/keyspace/pull/delta_cache.h"

#include <random>

namespace tensorkv {
namespace {

// What an entry takes besides the delta's bytes.
constexpr uint64_t kCachedDeltaBytes = 256;

uint64_t RandomNumber() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace

DeltaCache::DeltaCache(uint64_t max_bytes)
    : incarnation_(RandomNumber()), max_bytes_(max_bytes) {}

uint64_t DeltaCache::BytesOf(const MadeDeltaPtr& delta) {
  return kCachedDeltaBytes + (delta ? delta->bytes.size_bytes() : 0);
}

bool DeltaCache::Get(const DeltaId& id, Done done) {
  MadeDeltaPtr delta;
  {
    MutexLock lock(&mutex_);
    const auto [it, is_new] = entries_.try_emplace(id);
    Entry& entry = it->second;
    if (!entry.is_made) {
      entry.waiting.push_back(std::move(done));
      return is_new;
    }
    order_.splice(order_.end(), order_, entry.place);
    delta = entry.delta;
  }
  std::move(done)(delta);
  return false;
}

void DeltaCache::Add(const DeltaId& id, MadeDeltaPtr delta, bool is_kept) {
  std::vector<Done> waiting;
  // They are destroyed without the mutex.
  std::vector<MadeDeltaPtr> dropped;
  {
    MutexLock lock(&mutex_);
    ++num_made_;
    const auto it = entries_.find(id);
    Entry& entry = it->second;
    waiting.swap(entry.waiting);
    if (is_kept) {
      entry.is_made = true;
      entry.delta = delta;
      entry.place = order_.insert(order_.end(), id);
      used_bytes_ += BytesOf(delta);
    } else {
      entries_.erase(it);
    }
    while (used_bytes_ > max_bytes_) {
      const auto oldest = entries_.find(order_.front());
      used_bytes_ -= BytesOf(oldest->second.delta);
      dropped.push_back(std::move(oldest->second.delta));
      entries_.erase(oldest);
      order_.pop_front();
    }
  }
  for (Done& done : waiting) std::move(done)(delta);
}

uint64_t DeltaCache::used_bytes() const {
  MutexLock lock(&mutex_);
  return used_bytes_;
}

uint64_t DeltaCache::num_made() const {
  MutexLock lock(&mutex_);
  return num_made_;
}

}  // namespace tensorkv
