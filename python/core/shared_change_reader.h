// A ChangeReader that Python has.

#ifndef TENSORKV_PYTHON_CORE_SHARED_CHANGE_READER_H_
#define TENSORKV_PYTHON_CORE_SHARED_CHANGE_READER_H_

#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/change_reader.h"
#include "client/client.h"
#include "contract/requests.h"

namespace tensorkv::python {

// Makes one pull after another, since one that was interrupted may go on while
// the next one begins. Thread-safe.
class SharedChangeReader {
 public:
  absl::StatusOr<PullReply> Pull(Client client, PullRequest request) {
    MutexLock lock(&mutex_);
    return reader_.Pull(client, std::move(request));
  }
  // Forgets what it holds.
  void Clear() {
    MutexLock lock(&mutex_);
    reader_.Clear();
  }
  // Returns how many bytes of values have come.
  uint64_t bytes() const {
    MutexLock lock(&mutex_);
    return reader_.counts().bytes;
  }

 private:
  mutable Mutex mutex_;
  ChangeReader reader_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_SHARED_CHANGE_READER_H_
