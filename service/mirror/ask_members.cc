#include "service/mirror/ask_members.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace tensorkv {

void AskMembers(const MirrorGroup& group, const MirrorRequest& request,
                absl::Duration timeout, const std::vector<bool>& asked,
                WaitFor wait_for,
                std::function<void(const MirrorReplies&)> done) {
  struct Asking {
    Mutex mutex;
    size_t num_left ABSL_GUARDED_BY(mutex) = 0;
    bool has_ended ABSL_GUARDED_BY(mutex) = false;
    MirrorReplies replies ABSL_GUARDED_BY(mutex);
    std::function<void(const MirrorReplies&)> done;
  };
  const auto asking = std::make_shared<Asking>();
  asking->done = std::move(done);
  {
    MutexLock lock(&asking->mutex);
    asking->num_left = group.size();
    asking->replies.resize(group.size(), MirrorResponse());
  }
  const auto end_one = [asking, wait_for](
                           uint32_t member,
                           absl::StatusOr<MirrorResponse> reply) {
    MirrorReplies replies;
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
      end_one(i, MirrorResponse());
      continue;
    }
    group.peers[i]->Call(request, timeout,
                         [end_one, i](absl::StatusOr<MirrorResponse> response) {
                           end_one(i, std::move(response));
                         });
  }
}

}  // namespace tensorkv
