#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/names.h"
#include "service/store/namespace.h"

namespace tensorkv {

WorkerGroupOptions Namespace::GroupOptionsOf(
    const NamespaceConfig& config, const NamespaceEnvironment& environment) {
  return {
      .min_workers = config.num_workers,
      .max_workers = config.num_workers > 0 ? config.num_workers : kMaxWorkers,
      .min_lease = environment.min_lease,
      .max_lease = environment.max_lease};
}

absl::StatusOr<JoinReply> Namespace::Join(const JoinRequest& request) {
  RETURN_IF_ERROR(CheckWorkerName(request.worker_name));
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(no_waits_);
  ASSIGN_OR_RETURN(
      const Worker worker,
      workers_.Join(request.worker_name, request.lease,
                    environment_.next_epoch->fetch_add(1), workers_.max_step(),
                    environment_.alarms->Now()));
  failures_.erase(worker.rank);
  WatchLeases();
  return JoinReply{.worker = worker,
                   .num_workers = workers_.num_workers(),
                   .lease = request.lease,
                   .step = workers_.step_of(worker.rank)};
}

absl::StatusOr<KeepAliveReply> Namespace::KeepAlive(
    const KeepAliveRequest& request) {
  MutexLock lock(&mutex_);
  const absl::Duration now = environment_.alarms->Now();
  RETURN_IF_ERROR(workers_.CheckJoined(request.worker, now));
  workers_.Renew(request.worker, now);
  return KeepAliveReply{
      .lease_remaining = workers_.LeaseRemaining(request.worker, now),
      .num_workers = workers_.num_workers()};
}

absl::Status Namespace::Leave(const LeaveRequest& request) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(
      workers_.CheckJoined(request.worker, environment_.alarms->Now()));
  workers_.Leave(request.worker);
  return absl::OkStatus();
}

void Namespace::Barrier(BarrierRequest request, CallContext context,
                        ReplyCallback<BarrierReply> done) {
  std::move(done)(absl::UnimplementedError("Barrier: not supported yet"));
}

void Namespace::WatchLeases() {
  const absl::Duration next = workers_.next_expiry();
  if (next >= lease_alarm_time_) return;
  if (lease_alarm_ != 0) environment_.alarms->Cancel(lease_alarm_);
  lease_alarm_time_ = next;
  lease_alarm_ =
      environment_.alarms->Schedule(next, [weak_this = weak_from_this()] {
        if (const auto self = weak_this.lock()) self->EndLeases();
      });
}

void Namespace::EndLeases() {
  MutexLock lock(&mutex_);
  lease_alarm_ = 0;
  lease_alarm_time_ = absl::InfiniteDuration();
  for (const uint32_t rank : workers_.Expired(environment_.alarms->Now())) {
    workers_.Lose(rank);
  }
  WatchLeases();
}

}  // namespace tensorkv
