// Calls to several members of a group at once.

#ifndef TENSORKV_SERVICE_MIRROR_ASK_MEMBERS_H_
#define TENSORKV_SERVICE_MIRROR_ASK_MEMBERS_H_

#include <functional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/mirror/mirror_group.h"

namespace tensorkv {

// Holds a reply of each member, by its place in the group: an OK and empty one
// of a member that was not asked, or that had not answered when `done` was
// called.
using MirrorReplies = std::vector<absl::StatusOr<MirrorResponse>>;

// kAllOrError waits for all replies, or for the first that is an error.
enum class WaitFor { kAll, kAllOrError };

// Sends `request` to each member `i` with asked[i], the own one too, and
// returns. Calls `done` once, on any thread, maybe before this returns, when
// the replies of `wait_for` are there. `timeout` is that of each call.
void AskMembers(const MirrorGroup& group, const MirrorRequest& request,
                absl::Duration timeout, const std::vector<bool>& asked,
                WaitFor wait_for,
                std::function<void(const MirrorReplies&)> done);

// Sends `request` to all members as AskMembers does, and returns; `done` is
// called once, on any thread, after the last reply or the first error.
inline void AskAllMembers(const MirrorGroup& group,
                          const MirrorRequest& request, absl::Duration timeout,
                          std::function<void(const MirrorReplies&)> done) {
  AskMembers(group, request, timeout, std::vector<bool>(group.size(), true),
             WaitFor::kAllOrError, std::move(done));
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_ASK_MEMBERS_H_
