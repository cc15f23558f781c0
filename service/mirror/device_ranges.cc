#include "service/mirror/device_ranges.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/answer.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

// The size of an id of NCCL.
constexpr size_t kIdBytes = 128;
// One that parts the devices of an attempt that has failed, and one behind it.
constexpr int kMostMoves = 2;

absl::Status GivenUp() {
  return absl::CancelledError("the attempt was given up");
}

v1::GpuLink NewLink(const DeviceLink& link) {
  v1::GpuLink message;
  message.set_version(link.version());
  message.set_gpu(link.gpu());
  message.set_id(absl::Uniform<uint64_t>(absl::BitGen()));
  return message;
}

template <typename Ranges>
bool IsNothing(const Ranges& ranges) {
  return std::ranges::all_of(ranges,
                             [](const auto& pieces) { return pieces.empty(); });
}

}  // namespace

DeviceRanges::DeviceRanges(Environment environment)
    : environment_(std::move(environment)),
      link_(NewLink(*environment_.link)) {}

DeviceRanges::AttemptPtr DeviceRanges::Find(uint64_t attempt) {
  MutexLock lock(&mutex_);
  const auto found = attempts_.find(attempt);
  return found == attempts_.end() ? nullptr : found->second;
}

absl::Status DeviceRanges::Begin(uint64_t attempt,
                                 const std::string& communicator,
                                 std::shared_ptr<const void> kept) {
  if (communicator.size() != kIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat("communicator: expected ",
                                                   kIdBytes, " bytes, got ",
                                                   communicator.size()));
  }
  auto begun = std::make_shared<Attempt>();
  begun->communicator = communicator;
  begun->kept = std::move(kept);
  std::map<uint64_t, AttemptPtr> former;  // goes after the lock
  MutexLock lock(&mutex_);
  if (is_stopped_) return GivenUp();
  if (num_moves_ >= kMostMoves) {
    return absl::UnavailableError(
        "the devices of an earlier attempt have not parted yet");
  }
  for (const auto& [id, each] : attempts_) each->is_given_up = true;
  former.swap(attempts_);
  attempts_[attempt] = std::move(begun);
  return absl::OkStatus();
}

void DeviceRanges::Expect(uint64_t attempt, int phase,
                          RangesToReceive receives) {
  const AttemptPtr found = Find(attempt);
  if (found != nullptr) found->receives[phase] = std::move(receives);
}

void DeviceRanges::Move(uint64_t attempt, int phase, RangesToSend sends,
                        absl::Duration timeout, Callback done) {
  const absl::Duration deadline = environment_.alarms->Now() + timeout;
  {
    MutexLock lock(&mutex_);
    const auto found = attempts_.find(attempt);
    // Else there is no attempt, and maybe no thread.
    if (found != attempts_.end()) {
      ++num_moves_;
      return environment_.thread->Submit(
          [self = shared_from_this(), found = found->second, phase, deadline,
           sends = std::move(sends), done = std::move(done)]() mutable {
            absl::Status status =
                self->Exchange(*found, phase, std::move(sends), deadline);
            const bool is_broken = !status.ok();
            std::move(done)(std::move(status));
            // Whoever waits hears of it first: a device may take its time.
            if (is_broken) self->devices_ = nullptr;
            MutexLock lock(&self->mutex_);
            --self->num_moves_;
          });
    }
  }
  std::move(done)(GivenUp());
}

absl::Status DeviceRanges::Meet(const std::string& communicator,
                                MayWait may_wait) {
  if (devices_ != nullptr && communicator_ == communicator) {
    return absl::OkStatus();
  }
  devices_ = nullptr;
  ASSIGN_OR_RETURN(devices_, environment_.link->Join(communicator, group_.own,
                                                     group_.size(), may_wait));
  communicator_ = communicator;
  return absl::OkStatus();
}

absl::Status DeviceRanges::Exchange(Attempt& attempt, int phase,
                                    RangesToSend sends,
                                    absl::Duration deadline) {
  const auto may_wait = [&] {
    if (attempt.is_given_up) return GivenUp();
    if (environment_.alarms->Now() < deadline) return absl::OkStatus();
    return absl::DeadlineExceededError(
        absl::StrCat("not all of servers ", absl::StrJoin(group_.servers, ", "),
                     " came in time"));
  };
  RETURN_IF_ERROR(may_wait());
  RETURN_IF_ERROR(Meet(attempt.communicator, may_wait));
  const RangesToReceive& receives = attempt.receives[phase];
  if (IsNothing(sends) && IsNothing(receives)) return absl::OkStatus();
  return devices_->Exchange({std::move(sends), receives}, may_wait);
}

void DeviceRanges::EndAttempt(uint64_t attempt) {
  decltype(attempts_)::node_type forgotten;  // goes after the lock
  MutexLock lock(&mutex_);
  forgotten = attempts_.extract(attempt);
  if (!forgotten.empty()) forgotten.mapped()->is_given_up = true;
}

void DeviceRanges::Stop() {
  {
    std::map<uint64_t, AttemptPtr> former;  // goes after the lock
    MutexLock lock(&mutex_);
    if (std::exchange(is_stopped_, true)) return;
    for (const auto& [id, each] : attempts_) each->is_given_up = true;
    former.swap(attempts_);
  }
  const Answer<bool> parted;
  environment_.thread->Submit([this, parted] {
    devices_ = nullptr;
    parted.Set(true);
  });
  parted.Wait();
}

}  // namespace tensorkv
