// Counts what pulls that ask for what has changed were sent.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_CHANGES_SENT_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_CHANGES_SENT_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "contract/data_requests.h"
#include "service/store/namespace_summary.h"

namespace tensorkv {

// Thread-safe.
class ChangesSent {
 public:
  // Counts the values of a reply, unless the pull did not ask for changes: then
  // they have no ValueChange.
  void Count(const PullReply& reply) {
    if (reply.values.empty() || reply.values.front().change == nullptr) return;
    MutexLock lock(&mutex_);
    for (const Value& value : reply.values) {
      const auto bytes = static_cast<uint64_t>(value.tensor.size_bytes());
      if (value.change->unchanged) {
        ++counts_.unchanged;
      } else if (value.change->delta) {
        ++counts_.deltas;
        counts_.delta_bytes += bytes;
      } else {
        ++counts_.wholes;
        counts_.whole_bytes += bytes;
      }
    }
  }

  ChangeCounts counts() const {
    MutexLock lock(&mutex_);
    return counts_;
  }

 private:
  mutable Mutex mutex_;
  ChangeCounts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_CHANGES_SENT_H_
