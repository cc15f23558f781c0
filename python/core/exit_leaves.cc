#include "python/core/exit_leaves.h"

#include <stdlib.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace tensorkv::python {
namespace {

class Sessions {
 public:
  Sessions() { on_exit(&LeaveAll, this); }

  void Add(std::shared_ptr<Session> session) {
    MutexLock lock(&mutex_);
    sessions_.push_back(std::move(session));
  }

 private:
  static void LeaveAll(int status, void* argument) {
    auto& all = *static_cast<Sessions*>(argument);
    // A forked child has sessions, but not their threads.
    if (getpid() != all.pid_) return;
    std::vector<std::shared_ptr<Session>> sessions;
    {
      MutexLock lock(&all.mutex_);
      sessions.swap(all.sessions_);
    }
    for (const auto& session : sessions) session->Leave(status != 0);
  }

  const pid_t pid_ = getpid();
  Mutex mutex_;
  std::vector<std::shared_ptr<Session>> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

void LeaveAtExit(std::shared_ptr<Session> session) {
  static Sessions* const sessions = new Sessions();
  sessions->Add(std::move(session));
}

}  // namespace tensorkv::python
