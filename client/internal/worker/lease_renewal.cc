#include "client/internal/worker/lease_renewal.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/scoped_blocking_call.h"
#include "client/internal/steady_now.h"

namespace tensorkv {
namespace {

// However long the lease is, nobody waits longer for one call about it.
constexpr absl::Duration kLongestCall = absl::Seconds(5);

uint64_t EpochOf(const Client& client) {
  return client.worker().value_or(Worker()).epoch;
}

// Returns whether the server has said that the worker is no member. All else,
// such as a timeout, leaves the lease to the next renewal.
bool EndsMembership(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsNotFound(status);
}

}  // namespace

RenewalSchedule::RenewalSchedule(absl::Duration lease)
    : call_timeout(std::min(lease / 6, kLongestCall)),
      after_success(lease / 3),
      after_failure(call_timeout) {}

LeaseRenewal::LeaseRenewal(Client& client, absl::Duration lease,
                           std::function<void(const absl::Status&)> on_lost)
    : client_(client),
      schedule_(lease),
      on_lost_(std::move(on_lost)),
      thread_([this] { Run(); }) {}

LeaseRenewal::~LeaseRenewal() {
  const ScopedBlockingCall waits;
  {
    MutexLock lock(&mutex_);
    ends_ = true;
    ending_.SignalAll();
  }
  thread_.join();
}

absl::Status LeaseRenewal::membership() const {
  MutexLock lock(&mutex_);
  return membership_;
}

void LeaseRenewal::SetMember() {
  MutexLock lock(&mutex_);
  membership_ = absl::OkStatus();
}

void LeaseRenewal::Run() {
  absl::Duration next = SteadyNow() + schedule_.after_success;
  while (!WaitForEnd(next - SteadyNow())) {
    const absl::Duration begin = SteadyNow();
    next =
        begin + (Renew() ? schedule_.after_success : schedule_.after_failure);
  }
}

bool LeaseRenewal::WaitForEnd(absl::Duration pause) {
  const absl::Duration end = SteadyNow() + pause;
  MutexLock lock(&mutex_);
  while (!ends_ && SteadyNow() < end) {
    ending_.WaitWithTimeout(&mutex_, end - SteadyNow());
  }
  return ends_;
}

bool LeaseRenewal::Renew() {
  const uint64_t epoch = EpochOf(client_);
  const absl::Status status =
      client_.KeepAlive(schedule_.call_timeout).status();
  if (OnAnswer(status, epoch) && on_lost_) on_lost_(status);
  return status.ok();
}

bool LeaseRenewal::OnAnswer(const absl::Status& status, uint64_t epoch) {
  if (!status.ok() && !EndsMembership(status)) return false;
  MutexLock lock(&mutex_);
  // An answer about a former epoch does not count.
  if (EpochOf(client_) != epoch) return false;
  const bool was_member = membership_.ok();
  membership_ = status;
  // A worker that has left by itself was not lost.
  return was_member && !status.ok() && epoch != 0;
}

}  // namespace tensorkv
