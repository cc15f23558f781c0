// The order in which a namespace decides effects, and how far all have ended.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_REVISIONS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_REVISIONS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tensorkv {

// Gives revisions, and knows the effects that are under way. Guarded by the
// namespace's mutex.
//
// An effect gets its revision when it is admitted. It ends when its value is
// published, or when it has failed: then nothing ever has that revision, which
// counts as ended too. What takes effect at once, under the mutex, is never
// under way.
//
// Invariants:
//  1. under_way_ is in the order of the revisions, none of which is above
//     last(). Entries before first_ have no effects, and that at first_ has
//     some.
//  2. told() is the highest revision up to last() below which no effect is
//     under way, itself included.
//  3. Neither last() nor told() ever falls.
//  4. At most half of under_way_ are without effects: its size goes by what is
//     under way, and Begin allocates only where that is more than ever before.
class Revisions {
 public:
  // Returns a revision above all that were given.
  uint64_t Next() { return ++last_; }
  // Has the next revision be above `floor` too.
  void Raise(uint64_t floor) { last_ = std::max(last_, floor); }

  // Records so many effects of `revision`, at least one, that end later.
  // REQUIRES: `revision` is last(), and none of its effects has ended.
  void Begin(uint64_t revision, uint64_t num_effects = 1) {
    if (under_way_.empty() || under_way_.back().revision != revision) {
      under_way_.push_back({revision, 0});
    }
    under_way_.back().num_effects += num_effects;
  }
  // Records the end of so many effects of `revision`. REQUIRES: they are under
  // way.
  void End(uint64_t revision, uint64_t num_effects = 1);

  // Returns the last revision that was given.
  uint64_t last() const { return last_; }
  // Returns the highest revision up to which all effects have ended.
  uint64_t told() const {
    return under_way_.empty() ? last_ : under_way_[first_].revision - 1;
  }

 private:
  // A revision with the number of its effects that are under way.
  struct Entry {
    uint64_t revision = 0;
    uint64_t num_effects = 0;
  };

  uint64_t last_ = 0;
  std::vector<Entry> under_way_;
  size_t first_ = 0;
  // Counts the entries that have none any more.
  size_t num_ended_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_REVISIONS_H_
