// Numbers of series that the home of a namespace has given, and for which it
// has yet to name a snapshot of its cluster.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_RESERVED_NUMBERS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_RESERVED_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "service/store/keyspace/snapshots/named_snapshot.h"

namespace tensorkv {

// Guarded by the namespace's mutex.
class ReservedNumbers {
 public:
  // Bounds what is reserved at the same time.
  static constexpr size_t kMost = 1024;

  // Returns whether another can be reserved, now that the time of some may be
  // over.
  bool HasRoom(absl::Duration now) {
    if (numbers_.size() < kMost) return true;
    std::erase_if(numbers_,
                  [now](const auto& each) { return each.second.end <= now; });
    return numbers_.size() < kMost;
  }
  // Gives the number, which is above all of the series, until `end`.
  void Reserve(Series* series, uint64_t number, uint64_t uid,
               absl::Duration end) {
    const uint64_t before = std::exchange(series->last_number, number);
    numbers_[uid] = {series, number, before, end};
  }
  // Returns the number that is reserved; nothing if there is none, or its time
  // is over.
  std::optional<uint64_t> Find(uint64_t uid, absl::Duration now) const {
    const auto it = numbers_.find(uid);
    if (it == numbers_.end() || it->second.end <= now) return std::nullopt;
    return it->second.number;
  }
  // Ends a reservation whose number has a snapshot.
  void End(uint64_t uid) { numbers_.erase(uid); }
  // Ends a reservation, if there is one: the number is given again, if it is
  // the last.
  void GiveBack(uint64_t uid) {
    const auto it = numbers_.find(uid);
    if (it == numbers_.end()) return;
    const Reserved& reserved = it->second;
    if (reserved.series->last_number == reserved.number) {
      reserved.series->last_number = reserved.number_before;
    }
    numbers_.erase(it);
  }

 private:
  struct Reserved {
    Series* series = nullptr;
    uint64_t number = 0;
    // The last one that the series had given.
    uint64_t number_before = 0;
    absl::Duration end;
  };

  // By their uids.
  std::map<uint64_t, Reserved> numbers_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_RESERVED_NUMBERS_H_
