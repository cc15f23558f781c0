// Remembers what a client of a cluster has been told of namespaces.

#ifndef TENSORKV_CLIENT_CLUSTER_KNOWN_NAMESPACES_H_
#define TENSORKV_CLIENT_CLUSTER_KNOWN_NAMESPACES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "contract/requests.h"

namespace tensorkv {

// Holds what never changes of the namespace that has this uid.
struct KnownNamespace {
  // 0: the caller may not know which one it is.
  uint64_t uid = 0;
  // True if every server holds its keys.
  bool is_mirrored = false;
  Mode mode = Mode::kUnknown;
};

// Has the request mean the namespace that is known, unless it means another.
template <typename Request>
void NameUid(const KnownNamespace& known, Request& request) {
  if (NamespaceUidIn(request) == 0) SetNamespaceUid(known.uid, request);
}

// Keeps which namespace was there last, by its name. Another one may have the
// name by now: servers refuse calls with the uid of one that they do not have,
// and then it is forgotten. Thread-safe.
class KnownNamespaces {
 public:
  std::optional<KnownNamespace> Find(const std::string& name) const {
    MutexLock lock(&mutex_);
    const auto found = namespaces_.find(FullName(name));
    if (found == namespaces_.end()) return std::nullopt;
    return found->second;
  }
  // Returns the mode that is known; kUnknown if none is.
  Mode ModeOf(const std::string& name) const {
    return Find(name).value_or(KnownNamespace()).mode;
  }
  void Learn(const std::string& name, const KnownNamespace& told) {
    MutexLock lock(&mutex_);
    namespaces_[FullName(name)] = told;
  }
  // Forgets whatever has that name, or the namespace of that uid alone.
  void Forget(const std::string& name,
              std::optional<uint64_t> uid = std::nullopt) {
    MutexLock lock(&mutex_);
    const auto found = namespaces_.find(FullName(name));
    if (found == namespaces_.end()) return;
    if (!uid || found->second.uid == *uid) namespaces_.erase(found);
  }

 private:
  static std::string FullName(const std::string& name) {
    return name.empty() ? "default" : name;
  }

  mutable Mutex mutex_;
  std::map<std::string, KnownNamespace> namespaces_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_KNOWN_NAMESPACES_H_
