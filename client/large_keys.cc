#include "client/large_keys.h"

#include <string>
#include <utility>

#include "absl/hash/hash.h"

namespace tensorkv {
namespace {

uint64_t FingerprintOfKey(const std::string& name_space,
                          const std::string& key) {
  return absl::HashOf(name_space, key);
}

// The same for no two lists of different keys, or different orders of them.
template <typename Items>
uint64_t FingerprintOfList(const Items& items) {
  uint64_t fingerprint = items.size();
  for (const auto& item : items) {
    fingerprint = absl::HashOf(fingerprint, item.fingerprint);
  }
  return fingerprint;
}

template <typename Entries>
uint64_t TotalBytesOf(const Entries& entries) {
  uint64_t total = 0;
  for (const auto& entry : entries) total += entry.tensor.size_bytes();
  return total;
}

}  // namespace

void LargeKeys::Learn(const InitRequest& request) {
  if (!IsNews(TotalBytesOf(request.entries))) return;
  std::vector<Item> keys;
  keys.reserve(request.entries.size());
  for (const InitEntry& entry : request.entries) {
    keys.push_back({FingerprintOfKey(request.name_space, entry.key),
                    static_cast<uint64_t>(entry.tensor.size_bytes())});
  }
  LearnList(std::move(keys));
}

void LargeKeys::Learn(const PushRequest& request) {
  if (!IsNews(TotalBytesOf(request.entries))) return;
  std::vector<Item> keys;
  keys.reserve(request.entries.size());
  for (const PushEntry& entry : request.entries) {
    // Says nothing of the key's size, and so of the list's.
    if (entry.skip) return;
    keys.push_back({FingerprintOfKey(request.name_space, entry.key),
                    static_cast<uint64_t>(entry.tensor.size_bytes())});
  }
  LearnList(std::move(keys));
}

void LargeKeys::Learn(const PullRequest& request, const PullReply& reply) {
  if (!IsNews(TotalBytesOf(reply.values))) return;
  if (reply.values.size() != request.entries.size()) return;
  std::vector<Item> keys;
  keys.reserve(request.entries.size());
  for (size_t i = 0; i < request.entries.size(); ++i) {
    keys.push_back(
        {FingerprintOfKey(request.name_space, request.entries[i].key),
         static_cast<uint64_t>(reply.values[i].tensor.size_bytes())});
  }
  LearnList(std::move(keys));
}

uint64_t LargeKeys::ExpectedBytes(const PullRequest& request) const {
  if (knows_none()) return 0;
  std::vector<Item> keys;
  keys.reserve(request.entries.size());
  for (const PullEntry& entry : request.entries) {
    keys.push_back({FingerprintOfKey(request.name_space, entry.key)});
  }
  return ExpectedOf(keys);
}

uint64_t LargeKeys::ExpectedBytes(const PushRequest& request) const {
  if (knows_none()) return 0;
  std::vector<Item> keys;
  keys.reserve(request.entries.size());
  for (const PushEntry& entry : request.entries) {
    keys.push_back({FingerprintOfKey(request.name_space, entry.key)});
  }
  return ExpectedOf(keys);
}

void LargeKeys::LearnList(std::vector<Item> keys) {
  Item list = {.fingerprint = FingerprintOfList(keys)};
  for (const Item& key : keys) list.bytes += key.bytes;
  MutexLock lock(&mutex_);
  for (const Item& key : keys) Set(key);
  if (keys.size() > 1) Set(list);
  num_known_.store(known_.size(), std::memory_order_relaxed);
}

void LargeKeys::Set(const Item& item) {
  if (item.bytes < threshold_bytes_) {
    known_.erase(item.fingerprint);
    return;
  }
  known_[item.fingerprint] = item.bytes;
  if (known_.size() > max_known_) known_.erase(known_.begin());
}

uint64_t LargeKeys::BytesOf(uint64_t fingerprint) const {
  const auto found = known_.find(fingerprint);
  return found == known_.end() ? 0 : found->second;
}

uint64_t LargeKeys::ExpectedOf(const std::vector<Item>& keys) const {
  const uint64_t list = FingerprintOfList(keys);
  MutexLock lock(&mutex_);
  if (const uint64_t bytes = BytesOf(list); bytes > 0) return bytes;
  uint64_t bytes = 0;
  for (const Item& key : keys) bytes += BytesOf(key.fingerprint);
  return bytes;
}

}  // namespace tensorkv
