#include "service/cluster/cluster_member.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "service/cluster/placement_maker.h"

namespace tensorkv {
namespace {

// Bounds how often it looks for a placement that is being made, or for etcd.
constexpr absl::Duration kLongestWait = absl::Milliseconds(500);

// One code for whatever says that etcd does not answer.
absl::StatusCode ReportedCode(const absl::Status& outcome) {
  return absl::IsDeadlineExceeded(outcome) ? absl::StatusCode::kUnavailable
                                           : outcome.code();
}

}  // namespace

ClusterMember::ClusterMember(ClusterOptions options, Channels* etcd,
                             KnownPlacement* known, Listener listener)
    : options_(std::move(options)),
      known_(*known),
      listener_(std::move(listener)),
      records_(options_, listener_.log, etcd),
      thread_([this] { Run(); }) {}

void ClusterMember::Stop() {
  {
    MutexLock lock(&mutex_);
    if (stopping_) return;
    stopping_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

void ClusterMember::Run() {
  absl::Status outcome;
  do {
    outcome = RunOnce();
    Report(outcome);
    TellIfDisowned();
  } while (!is_replaced_ && !Sleep(PauseAfter(outcome)));
  is_in_touch_ = false;
  // It ends by itself, too, but the others see only then that the server is
  // gone.
  if (lease_ != 0 && outcome.ok()) {
    records_.etcd().RevokeLease(lease_).IgnoreError();
  }
  while (is_replaced_ && !Sleep(kLongestWait)) TellIfDisowned();
}

bool ClusterMember::Sleep(absl::Duration pause) {
  MutexLock lock(&mutex_);
  if (!stopping_) changed_.WaitWithTimeout(&mutex_, pause);
  return stopping_;
}

absl::Duration ClusterMember::PauseAfter(const absl::Status& outcome) const {
  const absl::Duration third = options_.lease / 3;
  const bool is_settled = outcome.ok() && is_placed_;
  // To look at a password is work for etcd.
  return is_settled || absl::IsFailedPrecondition(outcome)
             ? third
             : std::min(third, kLongestWait);
}

void ClusterMember::Report(const absl::Status& outcome) {
  is_in_touch_ = outcome.ok();
  if (reported_ == ReportedCode(outcome)) return;
  reported_ = ReportedCode(outcome);
  listener_.log(outcome.ok()
                    ? absl::StrCat("cluster: registered as ",
                                   options_.server_name, " at ",
                                   options_.address)
                    : absl::StrCat("cluster: out of touch, what is known "
                                   "stays: ",
                                   outcome.message()));
}

// Runs after each attempt: calls that wait are told after the attempt during
// which the server has begun to own nothing, however long etcd lets that take,
// and those that have come to wait since after the next.
void ClusterMember::TellIfDisowned() {
  if (!is_placed_) return;
  const absl::Status status =
      is_replaced_ ? absl::UnavailableError(absl::StrCat(
                         "another server has the name ", options_.server_name))
                   : known_.readiness();
  if (!status.ok()) listener_.disowned(status);
}

absl::Status ClusterMember::RunOnce() {
  const auto start = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(RenewOrGrantLease());
  if (!is_registered_) RETURN_IF_ERROR(Register());
  ASSIGN_OR_RETURN(ClusterReading reading, records_.Read());
  if (reading.placement.owners.empty()) {
    const ClusterPlacement placement = PlacementToCreate(reading.servers);
    if (placement.owners.empty()) return ApplyReading(std::move(reading));
    RETURN_IF_ERROR(CreatePlacement(placement));
    ASSIGN_OR_RETURN(reading, records_.Read());
  }
  RETURN_IF_ERROR(ApplyReading(std::move(reading)));
  // The others see at the end of the lease, not before, that it is gone, and
  // wait so long from then on.
  if (options_.lost_after > absl::ZeroDuration()) {
    known_.OwnUntil(start + absl::ToChronoNanoseconds(options_.lost_after));
  }
  return absl::OkStatus();
}

absl::Status ClusterMember::RenewOrGrantLease() {
  if (lease_ != 0) {
    const absl::Status renewed = records_.etcd().RenewLease(lease_);
    if (!absl::IsNotFound(renewed)) return renewed;
    is_registered_ = false;
  }
  ASSIGN_OR_RETURN(lease_, records_.etcd().GrantLease(options_.lease));
  return absl::OkStatus();
}

absl::Status ClusterMember::Register() {
  // A server that comes back after its lease leaves the name to one that has
  // come since; Read tells which it was.
  RETURN_IF_ERROR(
      records_.Register(lease_, /*only_if_absent=*/was_registered_));
  is_registered_ = true;
  was_registered_ = true;
  return absl::OkStatus();
}

ClusterPlacement ClusterMember::PlacementToCreate(
    const std::vector<ClusterServer>& servers) const {
  ClusterPlacement known = known_.last_placement();
  if (!known.owners.empty() || servers.size() < options_.size) return known;
  return MakePlacement(
      {.cluster = options_.cluster, .split_bytes = options_.split_bytes},
      servers, options_.num_partitions);
}

absl::Status ClusterMember::CreatePlacement(const ClusterPlacement& placement) {
  ASSIGN_OR_RETURN(const bool is_made, records_.CreatePlacement(placement));
  if (is_made) {
    listener_.log(absl::StrCat("cluster: made the placement of ",
                               placement.servers.size(), " servers"));
  }
  return absl::OkStatus();
}

absl::Status ClusterMember::ApplyReading(ClusterReading reading) {
  const int64_t own_lease = reading.registrations[options_.server_name].lease;
  is_replaced_ = own_lease != 0 && own_lease != lease_;
  if (is_replaced_) known_.LoseName();
  // Its lease ended between the calls: the next attempt registers it.
  if (own_lease == 0) is_registered_ = false;
  if (!reading.placement.owners.empty()) {
    const ClusterPlacement placement = std::move(reading.placement);
    const ClusterPlacement before = known_.last_placement();
    RETURN_IF_ERROR(known_.Set(placement, options_.server_name));
    LogLivenessChanges(before, placement);
    if (!std::exchange(is_placed_, true)) listener_.placed();
  }
  if (is_replaced_) {
    listener_.log(absl::StrCat("cluster: another server has the name ",
                               options_.server_name,
                               "; this one owns nothing any more"));
    listener_.replaced();
  }
  return absl::OkStatus();
}

void ClusterMember::LogLivenessChanges(
    const ClusterPlacement& before, const ClusterPlacement& placement) const {
  std::map<absl::string_view, bool> was_live;
  for (const ClusterServer& server : before.servers) {
    was_live[server.name] = server.live;
  }
  for (const ClusterServer& server : placement.servers) {
    const auto found = was_live.find(server.name);
    if (found == was_live.end() || found->second == server.live) continue;
    listener_.log(absl::StrCat("cluster: ", server.name,
                               server.live ? " is live" : " is not live"));
  }
}

}  // namespace tensorkv
