// Calls to several members of a group at once.

#ifndef TENSORKV_SERVICE_MIRROR_ASK_MEMBERS_H_
#define TENSORKV_SERVICE_MIRROR_ASK_MEMBERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "service/mirror/mirror_group.h"

namespace tensorkv {

// Holds a reply of each member, by its place in the group: an OK and empty one
// of a member that was not asked, or that had not answered when `done` was
// called.
template <typename Request>
using MirrorReplies = std::vector<absl::StatusOr<PeerResponse<Request>>>;

// kAllOrError waits for all replies, or for the first that is an error.
enum class WaitFor { kAll, kAllOrError };

// Sends `request` to each member `i` with asked[i], the own one too, and
// returns. Calls `done` once, on any thread, maybe before this returns, when
// the replies of `wait_for` are there. `timeout` is that of each call.
template <typename Request>
void AskMembers(const MirrorGroup& group, const Request& request,
                absl::Duration timeout, const std::vector<bool>& asked,
                WaitFor wait_for,
                std::function<void(const MirrorReplies<Request>&)> done) {
  using Reply = absl::StatusOr<PeerResponse<Request>>;
  struct Asking {
    Mutex mutex;
    size_t num_left ABSL_GUARDED_BY(mutex) = 0;
    bool has_ended ABSL_GUARDED_BY(mutex) = false;
    MirrorReplies<Request> replies ABSL_GUARDED_BY(mutex);
    std::function<void(const MirrorReplies<Request>&)> done;
  };
  const auto asking = std::make_shared<Asking>();
  asking->done = std::move(done);
  {
    MutexLock lock(&asking->mutex);
    asking->num_left = group.size();
    asking->replies.resize(group.size(), PeerResponse<Request>());
  }
  const auto end_one = [asking, wait_for](uint32_t member, Reply reply) {
    MirrorReplies<Request> replies;
    {
      MutexLock lock(&asking->mutex);
      asking->replies[member] = std::move(reply);
      const bool is_last = --asking->num_left == 0;
      const bool is_enough =
          wait_for == WaitFor::kAllOrError && !asking->replies[member].ok();
      if (asking->has_ended || (!is_last && !is_enough)) return;
      asking->has_ended = true;
      replies = asking->replies;
    }
    asking->done(replies);
  };
  for (uint32_t i = 0; i < group.size(); ++i) {
    if (!asked[i]) {
      end_one(i, PeerResponse<Request>());
      continue;
    }
    group.peers[i]->Call(request, timeout, [end_one, i](Reply reply) {
      end_one(i, std::move(reply));
    });
  }
}

// Sends `request` to all members as AskMembers does, and returns; `done` is
// called once, on any thread, after the last reply or the first error.
template <typename Request>
void AskAllMembers(const MirrorGroup& group, const Request& request,
                   absl::Duration timeout,
                   std::function<void(const MirrorReplies<Request>&)> done) {
  AskMembers<Request>(group, request, timeout,
                      std::vector<bool>(group.size(), true),
                      WaitFor::kAllOrError, std::move(done));
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_ASK_MEMBERS_H_
