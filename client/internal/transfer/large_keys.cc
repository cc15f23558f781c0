#include "client/internal/transfer/large_keys.h"

#include <algorithm>
#include <string>

#include "absl/hash/hash.h"
#include "tensor/shape.h"

namespace tensorkv {
namespace {

// An f8 contribution to an f64 key brings back eight times its bytes.
constexpr uint64_t kMaxWidening = 8;

// A pull of fewer values tells nothing of what long lists bring.
constexpr uint64_t kLeastList = 16;

uint64_t FingerprintOfKey(const std::string& name_space, const std::string& key,
                          const std::string& state = "") {
  return absl::HashOf(name_space, key, state);
}

// Rows, and each state, of a key are as if they were another key: what their
// last pull brought is what the next is expected to bring.
template <typename Entry>
uint64_t FingerprintOf(const std::string& name_space, const Entry& entry) {
  if constexpr (requires { entry.state; }) {
    return FingerprintOfKey(name_space, entry.key, entry.state);
  } else if constexpr (requires { entry.min_version; }) {
    const uint64_t fingerprint = FingerprintOfKey(name_space, entry.key);
    return entry.rows ? absl::HashOf(fingerprint, true) : fingerprint;
  } else {
    return FingerprintOfKey(name_space, entry.key);
  }
}

template <typename Entry>
uint64_t DecodedBytes(const Entry& entry) {
  return entry.tensor.size_bytes();
}

// Returns as many bytes as the values that come back have.
uint64_t DecodedBytes(const PushEntry& entry) {
  if (!entry.encoding) return entry.tensor.size_bytes();
  // Dtypes and shapes that no tensor can have tell nothing.
  return SizeInBytes(entry.dtype(), entry.shape()).value_or(0);
}

// Almost surely differs between lists of other keys, or of another order.
template <typename Keys>
uint64_t FingerprintOfList(const Keys& keys) {
  uint64_t fingerprint = keys.size();
  for (const auto& key : keys) {
    fingerprint = absl::HashOf(fingerprint, key.fingerprint);
  }
  return fingerprint;
}

}  // namespace

template <typename Entries>
bool LargeKeys::AreLarge(const Entries& entries) const {
  uint64_t total = 0;
  uint64_t largest = 0;
  for (const auto& entry : entries) {
    const uint64_t bytes = DecodedBytes(entry);
    total += bytes;
    largest = std::max(largest, bytes);
  }
  return policy_.ShouldStream(largest, 1) ||
         policy_.ShouldStream(total, entries.size());
}

template <typename Request>
void LargeKeys::LearnStored(const Request& request) {
  if (knows_none() && !AreLarge(request.entries)) return;
  std::vector<Key> keys;
  keys.reserve(request.entries.size());
  for (const auto& entry : request.entries) {
    keys.push_back({FingerprintOf(request.name_space, entry),
                    static_cast<uint64_t>(entry.tensor.size_bytes())});
  }
  LearnList(keys);
}
template void LargeKeys::LearnStored(const InitRequest& request);
template void LargeKeys::LearnStored(const SetStateRequest& request);

// A push does not change sizes, so that of small tensors has nothing to tell.
void LargeKeys::Learn(const PushRequest& request) {
  if (!AreLarge(request.entries)) return;
  std::vector<Key> keys;
  keys.reserve(request.entries.size());
  for (const PushEntry& entry : request.entries) {
    // Says nothing of the key's size, and so of the list's.
    if (entry.skip || entry.delta) return;
    keys.push_back(
        {FingerprintOfKey(request.name_space, entry.key), DecodedBytes(entry)});
  }
  LearnList(keys);
}

template <typename Request>
void LargeKeys::LearnRead(const Request& request, const PullReply& reply,
                          uint64_t expected_bytes) {
  if (expected_bytes == 0 && !AreLarge(reply.values)) return;
  if (reply.values.size() != request.entries.size()) return;
  std::vector<Key> keys;
  keys.reserve(request.entries.size());
  for (size_t i = 0; i < request.entries.size(); ++i) {
    keys.push_back(
        {FingerprintOf(request.name_space, request.entries[i]),
         static_cast<uint64_t>(reply.values[i].tensor.size_bytes())});
  }
  LearnList(keys);
}
template void LargeKeys::LearnRead(const PullRequest& request,
                                   const PullReply& reply,
                                   uint64_t expected_bytes);
template void LargeKeys::LearnRead(const GetStateRequest& request,
                                   const PullReply& reply,
                                   uint64_t expected_bytes);

void LargeKeys::LearnMean(const PullReply& reply) {
  const uint64_t num_values = reply.values.size();
  if (num_values < kLeastList) return;
  uint64_t total = 0;
  for (const Value& value : reply.values) total += value.tensor.size_bytes();
  mean_pulled_bytes_.store(total / num_values, std::memory_order_relaxed);
}

template <typename Request>
uint64_t LargeKeys::BytesToRead(const Request& request) const {
  if (knows_none()) return 0;
  std::vector<Key> keys;
  keys.reserve(request.entries.size());
  for (const auto& entry : request.entries) {
    keys.push_back({FingerprintOf(request.name_space, entry)});
  }
  return KnownBytesOf(keys);
}
template uint64_t LargeKeys::BytesToRead(const PullRequest& request) const;
template uint64_t LargeKeys::BytesToRead(const GetStateRequest& request) const;

bool LargeKeys::BringsBackLittle(const PushRequest& request) const {
  uint64_t total = 0;
  for (const PushEntry& entry : request.entries) {
    if (entry.skip) return false;
    total += DecodedBytes(entry);
  }
  return !policy_.ShouldStream(kMaxWidening * total, request.entries.size());
}

uint64_t LargeKeys::ExpectedBytes(const PushRequest& request) const {
  if (knows_none() || BringsBackLittle(request)) return 0;
  std::vector<Key> keys;
  keys.reserve(request.entries.size());
  for (const PushEntry& entry : request.entries) {
    keys.push_back({FingerprintOfKey(request.name_space, entry.key)});
  }
  return KnownBytesOf(keys);
}

void LargeKeys::LearnList(const std::vector<Key>& keys) {
  const uint64_t list = FingerprintOfList(keys);
  uint64_t total = 0;
  MutexLock lock(&mutex_);
  for (const Key& key : keys) {
    total += key.bytes;
    Set(key.fingerprint, key.bytes, 1);
  }
  if (keys.size() > 1) Set(list, total, keys.size());
  num_known_.store(known_.size(), std::memory_order_relaxed);
}

void LargeKeys::Set(uint64_t fingerprint, uint64_t bytes, uint64_t num_keys) {
  if (!policy_.ShouldStream(bytes, num_keys)) {
    known_.erase(fingerprint);
    return;
  }
  known_[fingerprint] = bytes;
  if (known_.size() > max_known_) known_.erase(known_.begin());
}

uint64_t LargeKeys::BytesOf(uint64_t fingerprint) const {
  const auto found = known_.find(fingerprint);
  return found == known_.end() ? 0 : found->second;
}

uint64_t LargeKeys::KnownBytesOf(const std::vector<Key>& keys) const {
  const uint64_t list = FingerprintOfList(keys);
  MutexLock lock(&mutex_);
  if (const uint64_t bytes = BytesOf(list); bytes > 0) return bytes;
  uint64_t bytes = 0;
  for (const Key& key : keys) bytes += BytesOf(key.fingerprint);
  return bytes;
}

}  // namespace tensorkv
