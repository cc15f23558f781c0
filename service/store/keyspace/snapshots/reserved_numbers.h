// Numbers of series that the home of a namespace has given, and for which it
// has yet to name a snapshot of its cluster.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_RESERVED_NUMBERS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_RESERVED_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/time/time.h"
#include "service/store/keyspace/snapshots/named_snapshot.h"

namespace tensorkv {

// Guarded by the namespace's mutex.
class ReservedNumbers {
 public:
  // Bounds what is reserved at the same time.
  static constexpr size_t kMost = 1024;

  struct Reserved {
    Series* series = nullptr;
    uint64_t number = 0;
    // Says that it has to be this one.
    bool is_asked_for = false;
    // The last one that the series had given.
    uint64_t number_before = 0;
    absl::Duration end;
  };

  // Returns whether another can be reserved, now that the time of some may be
  // over.
  bool HasRoom(absl::Duration now) {
    if (numbers_.size() < kMost) return true;
    for (auto it = numbers_.begin(); it != numbers_.end();) {
      const auto each = it++;
      if (each->second.end <= now) GiveBack(each->first);
    }
    return numbers_.size() < kMost;
  }
  // Gives a number, which is above all of the series, until its end.
  void Reserve(uint64_t uid, Reserved reserved) {
    reserved.number_before =
        std::exchange(reserved.series->last_number, reserved.number);
    numbers_[uid] = reserved;
  }
  // Returns what is reserved; null if nothing is, or its time is over.
  const Reserved* Find(uint64_t uid, absl::Duration now) const {
    const auto it = numbers_.find(uid);
    return it == numbers_.end() || it->second.end <= now ? nullptr
                                                         : &it->second;
  }
  // Ends a reservation whose number has a snapshot, or is not needed.
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
  // By their uids.
  std::map<uint64_t, Reserved> numbers_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_RESERVED_NUMBERS_H_
