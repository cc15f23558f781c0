// Remembers what a client of a cluster knows of the keys that are in slices.

#ifndef TENSORKV_CLIENT_CLUSTER_SPLIT_KEYS_H_
#define TENSORKV_CLIENT_CLUSTER_SPLIT_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/cluster/split_layout.h"
#include "client/internal/calls/task.h"
#include "contract/requests.h"
#include "contract/snapshot_references.h"

namespace tensorkv {

using SplitLayoutsPtr = std::shared_ptr<const SplitLayouts>;

// Keeps the layouts of the keys of each namespace, which the names of their
// first slices tell. Thread-safe.
class SplitKeys {
 public:
  // Makes a List.
  using Lister =
      absl::FunctionRef<Task<absl::StatusOr<ListReply>>(const ListRequest&)>;

  // Returns the layouts that were read last; reads them where nothing was.
  // Errors: those of `list`; a namespace that does not exist has none.
  Task<absl::StatusOr<SplitLayoutsPtr>> Of(const std::string& name_space,
                                           Lister list);
  // Reads the layouts again, and returns them. Errors: those of Of.
  Task<absl::StatusOr<SplitLayoutsPtr>> Refresh(const std::string& name_space,
                                                Lister list);

  // Returns the layouts of the keys of a snapshot of that uid; reads them
  // unless they are of the one that was asked for last. Errors: those of
  // `list`.
  Task<absl::StatusOr<SplitLayoutsPtr>> At(const std::string& name_space,
                                           const SnapshotReference& at,
                                           Lister list);

  // Drops what is known of the namespace, whose keys may be others by now.
  void Forget(const std::string& name_space);

  // Returns whether SetKnownWhole was called for the key, and that was not
  // forgotten since.
  bool IsKnownWhole(const std::string& name_space,
                    const std::string& key) const;
  // Keeps that the key was found not to be in slices, so that later calls do
  // not look again. May forget other keys.
  void SetKnownWhole(const std::string& name_space, const std::string& key);

 private:
  struct Namespace {
    // Null where nothing was read.
    SplitLayoutsPtr layouts;
    std::set<std::string> whole;
  };

  // Reads the layouts, of the snapshot if `at` is not null. Returns null where
  // there is no such namespace.
  static Task<absl::StatusOr<SplitLayoutsPtr>> Read(
      const std::string& name_space, const SnapshotReference* at, Lister list);

  mutable Mutex mutex_;
  std::map<std::string, Namespace> namespaces_ ABSL_GUARDED_BY(mutex_);
  // Those of the snapshot of that uid.
  uint64_t snapshot_uid_ ABSL_GUARDED_BY(mutex_) = 0;
  SplitLayoutsPtr snapshot_layouts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_SPLIT_KEYS_H_
