#include "service/mirror/mirror_sums.h"

namespace tensorkv {

void MirrorSums::Keep(const KeyName& key, KeptSum sum) {
  MutexLock lock(&mutex_);
  std::swap(kept_[key], sum);
}

std::optional<SumOfRound> MirrorSums::Find(const KeyName& key,
                                           uint64_t attempt) const {
  MutexLock lock(&mutex_);
  const auto found = kept_.find(key);
  if (found == kept_.end() || found->second.attempt != attempt) {
    return std::nullopt;
  }
  return found->second.sum;
}

bool MirrorSums::Has(const KeyName& key) const {
  MutexLock lock(&mutex_);
  return kept_.contains(key);
}

void MirrorSums::KeepOnly(const KeyName& key, Step step, Version version) {
  KeptSums::node_type dropped;
  MutexLock lock(&mutex_);
  const auto found = kept_.find(key);
  if (found != kept_.end() &&
      (found->second.step != step || found->second.version != version)) {
    dropped = kept_.extract(found);
  }
}

void MirrorSums::Drop(const KeyName& key) {
  KeptSums::node_type dropped;
  MutexLock lock(&mutex_);
  dropped = kept_.extract(key);
}

void MirrorSums::Applied(const KeyName& key, Step step) {
  KeptSums::node_type dropped;
  MutexLock lock(&mutex_);
  const auto found = kept_.find(key);
  if (found != kept_.end() && found->second.step == step) {
    dropped = kept_.extract(found);
  }
}

void MirrorSums::RememberCounted(const KeyName& key, const Counted& counted) {
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
  KeptSums::node_type dropped;
  MutexLock lock(&mutex_);
  const auto sum = kept_.find(key);
  if (sum != kept_.end() && sum->second.version <= version) {
    dropped = kept_.extract(sum);
  }
  const auto counted = counted_.find(key);
  if (counted != counted_.end() && counted->second.version <= version) {
    counted_.erase(counted);
  }
}

void MirrorSums::Forget(const std::string& name_space) {
  KeptSums dropped;
  MutexLock lock(&mutex_);
  const auto [first, last] = KeysOf(kept_, name_space);
  for (auto each = first; each != last;) {
    dropped.insert(kept_.extract(each++));
  }
  const auto [first_counted, last_counted] = KeysOf(counted_, name_space);
  counted_.erase(first_counted, last_counted);
}

void MirrorSums::Clear() {
  KeptSums dropped;
  MutexLock lock(&mutex_);
  dropped.swap(kept_);
  counted_.clear();
}

}  // namespace tensorkv
