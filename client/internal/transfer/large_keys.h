// Remembers the sizes of the values of keys.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_LARGE_KEYS_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_LARGE_KEYS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "client/internal/transfer/stream_policy.h"
#include "contract/requests.h"

namespace tensorkv {

// Guesses how much a pull will bring, from what went over the connection
// before, so that a large reply can be asked for as a stream at once. A wrong
// guess costs time, never correctness.
//
// Remembers keys with large values, and lists of keys whose values are large
// only together, by 64-bit fingerprints: a bounded few bytes each. Thread-safe.
class LargeKeys {
 public:
  // Keeps the keys and lists whose values go as streams, at most `max_known` of
  // them; beyond that an arbitrary one is forgotten.
  LargeKeys(const StreamPolicy& policy, size_t max_known)
      : policy_(policy), max_known_(max_known) {}

  // Remembers the sizes of what was stored, pushed or pulled. A reply that does
  // not have a value for each entry tells no sizes.
  void Learn(const InitRequest& request) { LearnStored(request); }
  void Learn(const SetStateRequest& request) { LearnStored(request); }
  void Learn(const PushRequest& request);
  // `expected_bytes` is what ExpectedBytes has returned for the request.
  void Learn(const PullRequest& request, const PullReply& reply,
             uint64_t expected_bytes) {
    LearnMean(reply);
    LearnRead(request, reply, expected_bytes);
  }
  void Learn(const GetStateRequest& request, const GetStateReply& reply,
             uint64_t expected_bytes) {
    LearnRead(request, reply, expected_bytes);
  }

  // Return how many bytes the values, or states, of these keys are known to
  // have in all; what is not known counts 0.
  uint64_t ExpectedBytes(const PullRequest& request) const {
    return BytesToRead(request);
  }
  uint64_t ExpectedBytes(const GetStateRequest& request) const {
    return BytesToRead(request);
  }
  // Returns how many bytes a pull brings if its values are as large as those of
  // the last list that was pulled, on average; 0 if none was. Does not read the
  // keys.
  uint64_t GuessedBytes(uint64_t num_entries) const {
    return num_entries * mean_pulled_bytes_.load(std::memory_order_relaxed);
  }
  // Returns how many bytes a PushPull is known to bring back; 0 if they go as
  // one message in any case.
  uint64_t ExpectedBytes(const PushRequest& request) const;

 private:
  struct Key {
    uint64_t fingerprint = 0;
    uint64_t bytes = 0;
  };

  // Do what Learn and ExpectedBytes do, for what is stored and what is read.
  template <typename Request>
  void LearnStored(const Request& request);
  template <typename Request>
  void LearnRead(const Request& request, const PullReply& reply,
                 uint64_t expected_bytes);
  template <typename Request>
  uint64_t BytesToRead(const Request& request) const;
  // Remembers the mean size of the values of a long list.
  void LearnMean(const PullReply& reply);
  // Sets the sizes of these keys, and of the list that they form.
  void LearnList(const std::vector<Key>& keys);
  // Sets the size of a key, or of a list of `num_keys`; forgets one that does
  // not go as a stream.
  void Set(uint64_t fingerprint, uint64_t bytes, uint64_t num_keys)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the size of a key or a list; 0 if it is not known.
  uint64_t BytesOf(uint64_t fingerprint) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the size of the list if it is known as one, else the sum of the
  // keys that are known. The keys need only fingerprints.
  uint64_t KnownBytesOf(const std::vector<Key>& keys) const;
  bool knows_none() const {
    return num_known_.load(std::memory_order_relaxed) == 0;
  }
  // Returns whether one of these tensors, or all together, go as a stream.
  template <typename Entries>
  bool AreLarge(const Entries& entries) const;
  // Returns whether the values that a PushPull brings back do not go as a
  // stream, whatever the keys' dtypes. Does not look the keys up, which would
  // cost a list of many small tensors as much as encoding it.
  bool BringsBackLittle(const PushRequest& request) const;

  const StreamPolicy policy_;
  const size_t max_known_;
  // The size of known_: a client of small tensors only never locks.
  std::atomic<size_t> num_known_ = 0;
  std::atomic<uint64_t> mean_pulled_bytes_ = 0;

  mutable Mutex mutex_;
  // Bytes by fingerprint.
  absl::flat_hash_map<uint64_t, uint64_t> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_LARGE_KEYS_H_
