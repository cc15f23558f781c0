#include "service/mirror/mirror_sums.h"

namespace tensorkv {

void MirrorSums::Keep(const KeyName& key, Prepared prepared) {
  MutexLock lock(&mutex_);
  std::swap(prepared_[key], prepared);
}

std::optional<SumOfRound> MirrorSums::Find(const KeyName& key,
                                           uint64_t attempt) const {
  MutexLock lock(&mutex_);
  const auto found = prepared_.find(key);
  if (found == prepared_.end() || found->second.attempt != attempt) {
    return std::nullopt;
  }
  return found->second.sum;
}

bool MirrorSums::Has(const KeyName& key) const {
  MutexLock lock(&mutex_);
  return prepared_.contains(key);
}

void MirrorSums::KeepOnly(const KeyName& key, Step step, Version version) {
  PreparedSums::node_type dropped;
  MutexLock lock(&mutex_);
  const auto found = prepared_.find(key);
  if (found != prepared_.end() &&
      (found->second.step != step || found->second.version != version)) {
    dropped = prepared_.extract(found);
  }
}

void MirrorSums::Drop(const KeyName& key) {
  PreparedSums::node_type dropped;
  MutexLock lock(&mutex_);
  dropped = prepared_.extract(key);
}

void MirrorSums::Applied(const KeyName& key, Step step) {
  PreparedSums::node_type dropped;
  MutexLock lock(&mutex_);
  const auto found = prepared_.find(key);
  if (found != prepared_.end() && found->second.step == step) {
    dropped = prepared_.extract(found);
  }
}

void MirrorSums::Count(const KeyName& key, const Counted& counted) {
  MutexLock lock(&mutex_);
  counted_[key] = counted;
}

std::optional<MirrorSums::Counted> MirrorSums::LastCounted(
    const KeyName& key) const {
  MutexLock lock(&mutex_);
  const auto found = counted_.find(key);
  if (found == counted_.end()) return std::nullopt;
  return found->second;
}

void MirrorSums::Remove(const KeyName& key, Version version) {
  PreparedSums::node_type dropped;
  MutexLock lock(&mutex_);
  const auto sum = prepared_.find(key);
  if (sum != prepared_.end() && sum->second.version <= version) {
    dropped = prepared_.extract(sum);
  }
  const auto counted = counted_.find(key);
  if (counted != counted_.end() && counted->second.version <= version) {
    counted_.erase(counted);
  }
}

void MirrorSums::Forget(const std::string& name_space) {
  PreparedSums dropped;
  MutexLock lock(&mutex_);
  const auto [first, last] = KeysOf(prepared_, name_space);
  for (auto each = first; each != last;) {
    dropped.insert(prepared_.extract(each++));
  }
  const auto [first_counted, last_counted] = KeysOf(counted_, name_space);
  counted_.erase(first_counted, last_counted);
}

void MirrorSums::Clear() {
  PreparedSums dropped;
  MutexLock lock(&mutex_);
  dropped.swap(prepared_);
  counted_.clear();
}

}  // namespace tensorkv
