// Values that keys had, which snapshots have yet.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_FORMER_VALUES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_FORMER_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/ref_counted.h"
#include "contract/call_fields.h"
#include "service/store/byte_budget.h"
#include "tensor/tensor.h"

namespace tensorkv {

// A value that a key had, from a revision on until before another. Guarded by
// the namespace's mutex.
struct FormerValue final : RefCounted {
  std::string key;
  uint64_t since = 0;
  uint64_t until = 0;
  uint64_t bytes = 0;
  // Without data until it is taken.
  Tensor value;
  Version version = 0;
  // Says that what runs on the key now must end before it is taken.
  bool is_awaited = false;
  bool is_wanted = true;
};

using FormerValuePtr = RefPtr<FormerValue>;

// The former values of all keys, by key and revision. Guarded by the
// namespace's mutex.
class FormerValues {
 private:
  // Its name, and the revision at which it began.
  struct Id {
    absl::string_view key;
    uint64_t since = 0;

    friend bool operator<(const Id& a, const Id& b) {
      if (const int order = a.key.compare(b.key); order != 0) return order < 0;
      return a.since < b.since;
    }
  };

 public:
  struct Kept {
    FormerValuePtr value;
    Reservation overhead;
  };
  // The names are those of the values.
  using Map = std::map<Id, Kept>;
  using Iterator = Map::iterator;
  using Node = Map::node_type;

  // Adds a value. `account` counts what it takes besides its tensor.
  Iterator Add(FormerValuePtr value, const RefPtr<BudgetAccount>& account);
  // Has the last former value of the key go on until before `until`, if it has
  // ended at `since` and is still the key's, which is `value`: an update has
  // failed, or something else has changed. Returns whether it does.
  bool TryExtend(absl::string_view key, uint64_t since, uint64_t until,
                 const Buffer* value);
  // Removes a value, which is wanted no more.
  Node Remove(Iterator value);

  // Say that the tensor is waited for, until it is taken.
  void Await(FormerValue& value);
  void Take(FormerValue& value, Tensor tensor, Version version);
  // Returns whether some value is yet to be taken that is of `revision` or
  // before.
  bool IsAwaited(uint64_t revision) const {
    return !awaited_.empty() && *awaited_.begin() <= revision;
  }

  // Returns the value of the key at that revision; null if there is none.
  const FormerValue* Find(absl::string_view key, uint64_t revision) const;
  // Returns the value that the key had as that version, at `revision` or
  // shortly before; null if there is none, or it is not taken yet.
  const FormerValue* FindVersion(absl::string_view key, Version version,
                                 uint64_t revision) const;
  // Looks at the next `max_names` names after `after` that begin with `prefix`,
  // in byte order, and returns the values that they had at `revision`. Sets
  // `*last` to the last name that it has looked at; leaves it if these were
  // all.
  std::vector<const FormerValue*> List(absl::string_view prefix,
                                       absl::string_view after,
                                       uint64_t revision, size_t max_names,
                                       std::string* last) const;

  // Looks at the next `max_names` names as List does, and returns those of
  // which there are values, of whatever revisions, each once.
  std::vector<std::string> Names(absl::string_view prefix,
                                 absl::string_view after, size_t max_names,
                                 std::string* last) const;

  size_t size() const { return values_.size(); }
  // Returns the bytes of all values.
  uint64_t value_bytes() const { return value_bytes_; }

 private:
  Map values_;
  uint64_t value_bytes_ = 0;
  // The `since` of values that are waited for.
  std::multiset<uint64_t> awaited_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_FORMER_VALUES_H_
