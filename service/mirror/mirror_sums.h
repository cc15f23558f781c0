// Keeps the sums that a server has made with others, while they may be needed.

#ifndef TENSORKV_SERVICE_MIRROR_MIRROR_SUMS_H_
#define TENSORKV_SERVICE_MIRROR_MIRROR_SUMS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "contract/requests.h"
#include "service/store/round_exchange.h"

namespace tensorkv {

// Returns the keys of a namespace in a map by namespace and key.
template <typename Map>
auto KeysOf(Map& map, const std::string& name_space) {
  const auto first = map.lower_bound({name_space, ""});
  auto last = first;
  while (last != map.end() && last->first.first == name_space) ++last;
  return std::pair(first, last);
}

// Keeps one sum of a key, and which sum of the key counted last. Outlives the
// groups in which the sums were made: another server may have heard, before the
// group changed, that a sum counts, and this one not yet. Thread-safe; takes no
// lock while it has its own.
class MirrorSums {
 public:
  // A namespace and a key.
  using KeyName = std::pair<std::string, std::string>;

  // KeptSum is a sum that may still be needed: this server does not know
  // whether it counts, or has not applied it to the key's value yet. `version`
  // is the key's before the round.
  struct KeptSum {
    uint64_t attempt = 0;
    Step step = 0;
    Version version = 0;
    SumOfRound sum;
  };
  // Counted names the attempt whose sum is that of the round for all servers,
  // whether this server has the sum or not. `version` is the key's before the
  // round.
  struct Counted {
    uint64_t attempt = 0;
    Step step = 0;
    Version version = 0;
  };

  // Keeps the sum in place of the one that is kept of the key, if there is one.
  void Keep(const KeyName& key, KeptSum sum);
  // Returns the sum of the key that is kept, if it is of that attempt.
  std::optional<SumOfRound> Find(const KeyName& key, uint64_t attempt) const;
  // Returns whether a sum of the key is kept.
  bool Has(const KeyName& key) const;

  // Drops the sum of the key, unless it is of that step and version.
  void KeepOnly(const KeyName& key, Step step, Version version);
  void Drop(const KeyName& key);
  // Drops the sum of the key if it is of that step: it is in the key's value
  // now.
  void Applied(const KeyName& key, Step step);

  // Remembers `counted` as the last round of the key whose sum counts.
  void RememberCounted(const KeyName& key, const Counted& counted);
  std::optional<Counted> LastCounted(const KeyName& key) const;

  // Drop the sum, and the last counted round, of a key up to that version, of
  // all keys of a namespace, and of all keys.
  void Remove(const KeyName& key, Version version);
  void Forget(const std::string& name_space);
  void Clear();

 private:
  // What is dropped is destroyed once the lock is released.
  using KeptSums = std::map<KeyName, KeptSum>;

  mutable Mutex mutex_;
  KeptSums kept_ ABSL_GUARDED_BY(mutex_);
  std::map<KeyName, Counted> counted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_MIRROR_SUMS_H_
