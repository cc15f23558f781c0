// Remembers what a client of a cluster has to know of the Joins that it has
// made before.

#ifndef TENSORKV_CLIENT_CLUSTER_BEGUN_JOINS_H_
#define TENSORKV_CLIENT_CLUSTER_BEGUN_JOINS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "contract/requests.h"

namespace tensorkv {

// A Join is made at the namespace's home and then at the other servers, and may
// break off between. Thread-safe.
class BegunJoins {
 public:
  // Returns the epoch that the Join replaces at home: the one that an earlier
  // Join of this client was given there and that has not come to its end, or
  // that of the request.
  uint64_t ReplacedBy(const JoinRequest& request) const {
    MutexLock lock(&mutex_);
    const auto begun = epochs_.find(NameIn(request));
    return begun == epochs_.end() ? request.replaces_epoch() : begun->second;
  }
  void Begin(const JoinRequest& request, uint64_t epoch) {
    MutexLock lock(&mutex_);
    epochs_[NameIn(request)] = epoch;
  }
  // Keeps that the worker has joined at all servers, of these incarnations by
  // their names. Returns one number for all of them: it changes when the
  // incarnation of a server changes, but not when servers come or go.
  uint64_t Complete(const JoinRequest& request,
                    std::map<std::string, uint64_t> incarnations) {
    MutexLock lock(&mutex_);
    epochs_.erase(NameIn(request));
    for (const auto& [server, incarnation] : incarnations) {
      const auto known = incarnations_.find(server);
      if (known != incarnations_.end()) {
        incarnation_ += incarnation - known->second;
      } else if (incarnations_.empty()) {
        incarnation_ += incarnation;
      }
    }
    incarnations_ = std::move(incarnations);
    return incarnation_;
  }

 private:
  using Name = std::pair<std::string, std::string>;
  static Name NameIn(const JoinRequest& request) {
    return {request.namespace_(), request.worker_name()};
  }

  mutable Mutex mutex_;
  // By namespace and worker, of Joins that have not come to their end.
  std::map<Name, uint64_t> epochs_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, uint64_t> incarnations_ ABSL_GUARDED_BY(mutex_);
  uint64_t incarnation_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_BEGUN_JOINS_H_
