// Keeps the sums that a server has made with others.

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

// Outlives the groups in which the sums were made: a sum may count of which
// another server has heard before the group changed, and this one has not.
// Thread-safe; no lock is taken while its own is held.
class MirrorSums {
 public:
  // A namespace and a key.
  using KeyName = std::pair<std::string, std::string>;

  // A sum of which it is not known whether it counts, or which is not in the
  // key's value yet.
  struct Prepared {
    uint64_t attempt = 0;
    Step step = 0;
    Version version = 0;
    SumOfRound sum;
  };
  // An attempt whose sum counts as that of the round, whatever this server has
  // of it. The version is the one that the key had before.
  struct Counted {
    uint64_t attempt = 0;
    Step step = 0;
    Version version = 0;
  };

  void Keep(const KeyName& key, Prepared prepared);
  // Returns the sum of that attempt; nothing if this server does not have it.
  std::optional<SumOfRound> Find(const KeyName& key, uint64_t attempt) const;
  bool Has(const KeyName& key) const;

  // Drops a sum that is not of that round.
  void KeepOnly(const KeyName& key, Step step, Version version);
  void Drop(const KeyName& key);
  // Drops the sum of that step: it is in the key's value.
  void Applied(const KeyName& key, Step step);

  // Remembers of each key the last round whose sum counts.
  void Count(const KeyName& key, const Counted& counted);
  std::optional<Counted> LastCounted(const KeyName& key) const;

  // Drops all of a key up to that version, of a namespace, and of all.
  void Remove(const KeyName& key, Version version);
  void Forget(const std::string& name_space);
  void Clear();

 private:
  // Sums go after the lock.
  using PreparedSums = std::map<KeyName, Prepared>;

  mutable Mutex mutex_;
  PreparedSums prepared_ ABSL_GUARDED_BY(mutex_);
  std::map<KeyName, Counted> counted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_MIRROR_SUMS_H_
