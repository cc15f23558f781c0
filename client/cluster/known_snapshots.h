// Remembers what a client of a cluster has been told of snapshots.

#ifndef TENSORKV_CLIENT_CLUSTER_KNOWN_SNAPSHOTS_H_
#define TENSORKV_CLIENT_CLUSTER_KNOWN_SNAPSHOTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "client/cluster/split_layout.h"
#include "contract/requests.h"
#include "contract/snapshot_references.h"

namespace tensorkv {

// Holds what never changes of a snapshot.
struct KnownSnapshot {
  SnapshotReference reference() const {
    SnapshotReference reference = SnapshotOf(series, number);
    reference.set_uid(uid);
    return reference;
  }

  std::string series;
  uint64_t number = 0;
  uint64_t uid = 0;
  // The servers that have shares of it; none: the home has all of it.
  std::vector<std::string> servers;
  // The layouts of its keys; null where they were not read.
  SplitLayoutsPtr layouts;
};

// Keeps of each series the snapshot that was looked up last. It may have gone
// by now: then it is forgotten by whoever hears so. Thread-safe.
class KnownSnapshots {
 public:
  // Returns the one that is kept, if it has that number, or that uid.
  std::optional<KnownSnapshot> Find(const std::string& name_space,
                                    const SnapshotReference& at) const {
    MutexLock lock(&mutex_);
    const auto found = snapshots_.find({name_space, at.series()});
    if (found == snapshots_.end()) return std::nullopt;
    const KnownSnapshot& known = found->second;
    const bool is_it = at.uid() != 0
                           ? known.uid == at.uid()
                           : at.has_number() && known.number == at.number();
    if (!is_it) return std::nullopt;
    return known;
  }
  void Learn(const std::string& name_space, const KnownSnapshot& told) {
    MutexLock lock(&mutex_);
    if (snapshots_.size() >= kMost) snapshots_.clear();
    snapshots_[{name_space, told.series}] = told;
  }
  void Forget(const std::string& name_space, const std::string& series) {
    MutexLock lock(&mutex_);
    snapshots_.erase({name_space, series});
  }

 private:
  // Rather ask again than keep more.
  static constexpr size_t kMost = 10'000;

  mutable Mutex mutex_;
  // By namespace and series.
  std::map<std::pair<std::string, std::string>, KnownSnapshot> snapshots_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_KNOWN_SNAPSHOTS_H_
