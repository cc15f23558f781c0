// What one server does in a group of servers that hold the same keys.

#ifndef TENSORKV_SERVICE_MIRROR_MIRROR_SESSION_H_
#define TENSORKV_SERVICE_MIRROR_MIRROR_SESSION_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/alarms.h"
#include "base/executor.h"
#include "kernels/backend.h"
#include "kernels/device_link.h"
#include "service/mirror/delivered_ranges.h"
#include "service/mirror/device_ranges.h"
#include "service/mirror/mirror_counts.h"
#include "service/mirror/mirror_group.h"
#include "service/mirror/mirror_leader.h"
#include "service/mirror/mirror_member.h"
#include "service/mirror/mirror_sums.h"

namespace tensorkv {

// A MirrorSession has this server's MirrorMember of one group, and a
// MirrorLeader, which is used if this server leads the group. Another group
// needs another session. Thread-safe.
class MirrorSession {
 public:
  // Environment holds what outlives every session.
  struct Environment {
    MirrorTimes times;
    Alarms* alarms = nullptr;
    Backend* backend = nullptr;  // the host's
    // The link from this server's GPU, if that alone has tensors, to those of
    // others, and the thread that waits for it; both null: there is no link.
    DeviceLink* link = nullptr;
    Executor* device_thread = nullptr;
    NotOnDevices not_on_devices;
    Executor* executor = nullptr;
    MirrorCounts* counts = nullptr;
    std::shared_ptr<MirrorSums> sums;
  };

  MirrorSession(MirrorGroup group, const Environment& environment);

  const MirrorGroup& group() const { return *group_; }
  MirrorMember& member() { return *member_; }

  // Answers a call of a member, which may be this one, by calling `done` once,
  // on any thread. Errors: FailedPrecondition: the caller has another group or
  // leader · those of the method.
  template <typename Request>
  void Handle(const Request& request, MirrorCallback<Request> done) {
    const absl::Status status =
        CheckSender(PeerCall<Request>::kMethod, request.from());
    if (!status.ok()) return std::move(done)(status);
    Answer(request, std::move(done));
  }

  // Remove and Forget drop what is kept of a key, or of a namespace, as
  // RoundExchange says.
  void Remove(const std::string& name_space, const std::string& key,
              Version version) {
    member_->Remove(name_space, key, version);
    leader_->Remove(name_space, key, version);
  }
  void Forget(const std::string& name_space) {
    member_->Forget(name_space);
    leader_->Forget(name_space);
  }

  // Ends what is under way with `status`, and waits until the link is not used
  // any more; no callback may call it.
  void Stop(const absl::Status& status);

 private:
  // Errors: FailedPrecondition: the sender has another group or leader.
  absl::Status CheckSender(Method method, const v1::GroupMember& from) const;

  // Each answers a call of that method.
#define TENSORKV_ANSWER(name, ...)              \
  void Answer(const v1::name##Request& request, \
              MirrorCallback<v1::name##Request> done);
  TENSORKV_MIRROR_METHODS(TENSORKV_ANSWER)
#undef TENSORKV_ANSWER

  const MirrorGroupPtr group_;
  const std::shared_ptr<DeliveredRanges> ranges_;
  // Null without a link.
  const std::shared_ptr<DeviceRanges> device_ranges_;
  const std::shared_ptr<MirrorLeader> leader_;
  const std::shared_ptr<MirrorMember> member_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_MIRROR_SESSION_H_
