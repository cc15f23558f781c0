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

// By member. Those that are not asked count as OK, and so do those that are not
// waited for.
using MirrorReplies = std::vector<absl::StatusOr<MirrorResponse>>;

enum class WaitFor { kAll, kAllOrError };

// Calls the members that are `asked`, and then `done`, once, on any thread.
void AskMembers(const MirrorGroup& group, const MirrorRequest& request,
                absl::Duration timeout, const std::vector<bool>& asked,
                WaitFor wait_for,
                std::function<void(const MirrorReplies&)> done);

// Calls all, and waits for all or an error.
inline void AskAll(const MirrorGroup& group, const MirrorRequest& request,
                   absl::Duration timeout,
                   std::function<void(const MirrorReplies&)> done) {
  AskMembers(group, request, timeout, std::vector<bool>(group.size(), true),
             WaitFor::kAllOrError, std::move(done));
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_ASK_MEMBERS_H_
