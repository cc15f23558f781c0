// Collects what has changed in a namespace since its log was told last.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_RECENT_CHANGES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_RECENT_CHANGES_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/store/change_memory.h"

namespace tensorkv {

// Says what has happened: a key has a new value, was deleted, or has gone to
// another server, which tells of it; a series has a snapshot that can be read.
enum class ChangeKind : uint8_t { kValue, kDelete, kGone, kSnapshot };

// A change of a key or a series.
struct RecordedChange {
  // This object, its name and its places take about so much.
  uint64_t bytes() const { return 160 + name.size(); }

  std::string name;
  uint64_t number = 0;  // a version, or that of a snapshot
  uint64_t revision = 0;
  ChangeKind kind = ChangeKind::kValue;
};

// RecentChanges collects changes until they are taken to the ChangeLog. Guarded
// by the namespace's mutex, under which nothing of it is copied or destroyed.
//
// Writers do one thing for all watches together: they append to it, and nothing
// as long as nobody watches.
class RecentChanges {
 public:
  // Changes in the order in which they have ended.
  struct Batch {
    std::deque<RecordedChange> changes;
    uint64_t bytes = 0;
    // All effects up to this revision have ended.
    uint64_t told = 0;
    // Says that there were too many: they are not all here.
    bool is_lost = false;
  };

  // Changes are collected for so long, at least, before they are taken.
  static constexpr absl::Duration kPause = absl::Milliseconds(10);

  // The memory bounds what is collected.
  explicit RecentChanges(std::shared_ptr<const ChangeMemory> memory)
      : memory_(std::move(memory)) {}

  // Has changes collected from now on.
  void Begin() { is_on_ = true; }
  // Collects none any more. Returns those that there are, which are to be
  // destroyed without the mutex.
  [[nodiscard]] Batch End() {
    is_on_ = false;
    return std::exchange(batch_, {});
  }
  bool is_on() const { return is_on_; }

  // Records a change that has ended.
  void Record(ChangeKind kind, absl::string_view name, uint64_t number,
              uint64_t revision) {
    if (!is_on_) return;
    // It can be read since now, though its revision was told before maybe.
    if (kind == ChangeKind::kSnapshot) taken_ = 0;
    if (batch_.is_lost) return;
    RecordedChange& change = batch_.changes.emplace_back(
        RecordedChange{std::string(name), number, revision, kind});
    batch_.bytes += change.bytes();
    batch_.is_lost = batch_.bytes > memory_->share() / 4;
  }

  // Has all watches begin anew.
  void Lose() {
    if (!is_on_) return;
    batch_.is_lost = true;
    taken_ = 0;
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
  const std::shared_ptr<const ChangeMemory> memory_;
  bool is_on_ = false;
  absl::Duration last_take_ = -absl::InfiniteDuration();
  uint64_t taken_ = 0;
  Batch batch_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_RECENT_CHANGES_H_
