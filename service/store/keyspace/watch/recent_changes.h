// What has changed in a namespace since watches were told last.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_RECENT_CHANGES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_RECENT_CHANGES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tensorkv {

// What a change is of: a key that has a new value, a key that was deleted, a
// series with a snapshot that can be read.
enum class ChangeKind : uint8_t { kValue, kDelete, kSnapshot };

// RecentChanges collects changes until they are taken to the ChangeLog. Guarded
// by the namespace's mutex.
//
// Writers do one thing for all watches together: they append to it, and nothing
// as long as nobody watches.
class RecentChanges {
 public:
  // A change, whose name is a part of Batch::names.
  struct Entry {
    uint64_t revision = 0;
    uint64_t number = 0;  // a version, or that of a snapshot
    uint64_t name_begin = 0;
    uint16_t name_size = 0;
    ChangeKind kind = ChangeKind::kValue;
  };
  // Changes in the order in which they have ended.
  struct Batch {
    std::vector<Entry> entries;
    std::string names;
    // All effects up to this revision have ended.
    uint64_t told = 0;
    // Says that there were too many: they are not all here.
    bool is_lost = false;
  };

  // How long changes are collected, at least, before they are taken.
  static constexpr absl::Duration kPause = absl::Milliseconds(10);
  // How long they are collected for watches that may go on.
  static constexpr absl::Duration kMemory = absl::Minutes(5);

  // `max_bytes` bounds what it collects.
  explicit RecentChanges(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Has changes collected from now on, for a watch that asks now.
  void Begin(absl::Duration now) {
    is_on_ = true;
    asked_ = now;
  }
  // Collects none any more, and forgets those that there are.
  void End() {
    is_on_ = false;
    batch_ = {};
  }
  bool is_on() const { return is_on_; }
  // Returns whether no watch has asked for so long that none will go on.
  bool IsForgotten(absl::Duration now) const { return now - asked_ > kMemory; }

  // Records a change that has ended.
  void Record(ChangeKind kind, absl::string_view name, uint64_t number,
              uint64_t revision) {
    if (is_on_) Append(kind, name, number, revision);
  }

  // Returns whether there may be more to tell than what was taken, now that all
  // effects up to `told` have ended.
  bool MustTake(uint64_t told) const { return is_on_ && told > taken_; }
  // Returns when that is to be taken.
  absl::Duration next_take() const { return last_take_ + kPause; }
  Batch Take(uint64_t told, absl::Duration now) {
    taken_ = batch_.told = told;
    last_take_ = now;
    return std::exchange(batch_, {});
  }

 private:
  void Append(ChangeKind kind, absl::string_view name, uint64_t number,
              uint64_t revision);

  const uint64_t max_bytes_;
  bool is_on_ = false;
  absl::Duration asked_ = -absl::InfiniteDuration();
  absl::Duration last_take_ = -absl::InfiniteDuration();
  uint64_t taken_ = 0;
  Batch batch_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_RECENT_CHANGES_H_
