// Numbers of series that the home of a namespace has given, and for which it
// has yet to name a snapshot of its cluster.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_RESERVED_NUMBERS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_RESERVED_NUMBERS_H_

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
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
    absl::Duration end;
  };

  // Returns whether another can be reserved.
  bool HasRoom() const { return numbers_.size() < kMost; }
  // Gives a number, which no other snapshot of the series has, until its end.
  void Reserve(uint64_t uid, Reserved reserved) {
    Series& series = *reserved.series;
    assert(!by_number_.contains({&series, reserved.number}));
    series.last_number = std::max(series.last_number, reserved.number);
    ends_.emplace(reserved.end, uid);
    by_number_[{reserved.series, reserved.number}] = uid;
    numbers_[uid] = reserved;
  }
  // Returns what is reserved; null if nothing is, or its time is over.
  const Reserved* Find(uint64_t uid, absl::Duration now) const {
    const auto it = numbers_.find(uid);
    return it == numbers_.end() || it->second.end <= now ? nullptr
                                                         : &it->second;
  }
  // Ends a reservation whose number has a snapshot, or is not needed.
  void End(uint64_t uid) {
    const auto it = numbers_.find(uid);
    if (it == numbers_.end()) return;
    const Reserved& reserved = it->second;
    ends_.erase({reserved.end, uid});
    by_number_.erase({reserved.series, reserved.number});
    numbers_.erase(it);
  }
  // Ends a reservation, if there is one: the number is given again once it is
  // the last.
  void GiveBack(uint64_t uid) {
    const auto it = numbers_.find(uid);
    if (it == numbers_.end()) return;
    const Reserved given = it->second;
    End(uid);
    if (given.series->last_number == given.number) Lower(*given.series);
  }
  // Has the numbers of the series be given again above all that were taken, are
  // reserved, or have snapshots.
  void Lower(Series& series) const {
    series.last_number = series.last_taken;
    if (!series.snapshots.empty()) {
      series.last_number =
          std::max(series.last_number, series.snapshots.rbegin()->first);
    }
    const auto after = by_number_.upper_bound({&series, UINT64_MAX});
    if (after == by_number_.begin()) return;
    const auto& [owner, number] = std::prev(after)->first;
    if (owner == &series) {
      series.last_number = std::max(series.last_number, number);
    }
  }
  // Gives all back whose time is over.
  void GiveBackEnded(absl::Duration now) {
    while (!ends_.empty() && ends_.begin()->first <= now) {
      GiveBack(ends_.begin()->second);
    }
  }
  // Ends all: their numbers are not given again.
  void EndAll() {
    for (auto& [uid, reserved] : numbers_) {
      Series& series = *reserved.series;
      series.last_taken = std::max(series.last_taken, reserved.number);
    }
    numbers_.clear();
    by_number_.clear();
    ends_.clear();
  }

 private:
  // By their uids.
  std::map<uint64_t, Reserved> numbers_;
  // Have their uids, in order of series and numbers, and of ends.
  std::map<std::pair<const Series*, uint64_t>, uint64_t> by_number_;
  std::set<std::pair<absl::Duration, uint64_t>> ends_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_RESERVED_NUMBERS_H_
