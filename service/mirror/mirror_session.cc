#include "service/mirror/mirror_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tensorkv {
namespace {

std::shared_ptr<DeviceRanges> DeviceRangesOf(
    const MirrorGroupPtr& group,
    const MirrorSession::Environment& environment) {
  if (environment.link == nullptr) return nullptr;
  return std::make_shared<DeviceRanges>(
      DeviceRanges::Environment{.group = group,
                                .link = environment.link,
                                .alarms = environment.alarms,
                                .thread = environment.device_thread});
}

}  // namespace

MirrorSession::MirrorSession(MirrorGroup group, const Environment& environment)
    : group_(std::make_shared<MirrorGroup>(std::move(group))),
      ranges_(std::make_shared<DeliveredRanges>(group_, environment.alarms)),
      device_ranges_(DeviceRangesOf(group_, environment)),
      leader_(std::make_shared<MirrorLeader>(MirrorLeader::Environment{
          .group = group_,
          .times = environment.times,
          .alarms = environment.alarms,
          .executor = environment.executor,
          .link = environment.link,
          .not_on_devices = environment.not_on_devices})),
      member_(std::make_shared<MirrorMember>(
          MirrorMember::Environment{.group = group_,
                                    .times = environment.times,
                                    .transport = ranges_,
                                    .device_ranges = device_ranges_,
                                    .alarms = environment.alarms,
                                    .backend = environment.backend,
                                    .executor = environment.executor,
                                    .counts = environment.counts,
                                    .sums = environment.sums})) {}

void MirrorSession::Stop(const absl::Status& status) {
  member_->Stop(status);
  leader_->Stop(status);
  if (device_ranges_ != nullptr) device_ranges_->Stop();
}

absl::Status MirrorSession::CheckSender(Method method,
                                        const v1::GroupMember& from) const {
  if (from.group() != group_->id() || from.place() >= group_->size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "expected a call of the servers ", absl::StrJoin(group_->servers, ", "),
        ", got one of other servers"));
  }
  const bool is_for_leader = method == Method::kAnnounceRounds;
  const bool is_of_leader =
      method == Method::kBeginSums || method == Method::kRunSums;
  if ((is_for_leader && group_->own != group_->leader()) ||
      (is_of_leader && from.place() != group_->leader())) {
    return absl::FailedPreconditionError(
        absl::StrCat("expected server ", group_->servers[group_->leader()],
                     " to lead, as in this version of the program"));
  }
  return absl::OkStatus();
}

void MirrorSession::Answer(const v1::AnnounceRoundsRequest& request,
                           MirrorCallback<v1::AnnounceRoundsRequest> done) {
  leader_->Announce(request, std::move(done));
}

void MirrorSession::Answer(const v1::BeginSumsRequest& request,
                           MirrorCallback<v1::BeginSumsRequest> done) {
  std::move(done)(member_->Begin(request));
}

void MirrorSession::Answer(const v1::RunSumsRequest& request,
                           MirrorCallback<v1::RunSumsRequest> done) {
  member_->Run(request, std::move(done));
}

void MirrorSession::Answer(const v1::DeliverRangesRequest& request,
                           MirrorCallback<v1::DeliverRangesRequest> done) {
  const absl::Status status = ranges_->Receive(request);
  if (!status.ok()) return std::move(done)(status);
  std::move(done)(v1::DeliverRangesResponse());
}

void MirrorSession::Answer(const v1::PingRequest& request,
                           MirrorCallback<v1::PingRequest> done) {
  std::move(done)(member_->Ping(request));
}

}  // namespace tensorkv
