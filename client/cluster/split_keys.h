// Remembers what a client of a cluster knows of the keys that are in slices.

#ifndef TENSORKV_CLIENT_CLUSTER_SPLIT_KEYS_H_
#define TENSORKV_CLIENT_CLUSTER_SPLIT_KEYS_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/cluster/split_layout.h"
#include "contract/requests.h"

namespace tensorkv {

using SplitLayoutsPtr = std::shared_ptr<const SplitLayouts>;

// The layouts of each namespace, as slices 0 tell them that servers list.
// Thread-safe.
class SplitKeys {
 public:
  // Makes a List.
  using Lister = std::function<absl::StatusOr<ListReply>(const ListRequest&)>;

  // Returns the layouts that were read last; reads them where nothing was.
  // Errors: those of `list`; a namespace that does not exist has none.
  absl::StatusOr<SplitLayoutsPtr> Of(const std::string& name_space,
                                     const Lister& list);
  // Reads them. Errors: as Of.
  absl::StatusOr<SplitLayoutsPtr> Refresh(const std::string& name_space,
                                          const Lister& list);

  // The keys of the namespace may be others by now.
  void Forget(const std::string& name_space);

  // Returns whether somebody has found before that the key, of which this call
  // does not say how large it is, is not in slices.
  bool IsKnownWhole(const std::string& name_space,
                    const std::string& key) const;
  void SetKnownWhole(const std::string& name_space, const std::string& key);

 private:
  struct Namespace {
    // Null where nothing was read.
    SplitLayoutsPtr layouts;
    std::set<std::string> whole;
  };

  mutable Mutex mutex_;
  std::map<std::string, Namespace> namespaces_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_SPLIT_KEYS_H_
