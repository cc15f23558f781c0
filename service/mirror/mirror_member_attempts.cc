// The member's part in attempts that have begun.

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "service/mirror/mirror_member.h"

namespace tensorkv {
namespace {

template <typename Ranges>
uint64_t BytesOf(const Ranges& ranges) {
  uint64_t bytes = 0;
  for (const auto& pieces : ranges) {
    for (const auto& piece : pieces) bytes += piece.size();
  }
  return bytes;
}

absl::Status NotUnderWay() {
  return absl::FailedPreconditionError("the attempt is not under way");
}

}  // namespace

absl::Status MirrorMember::ChooseTransport(const AttemptPtr& attempt,
                                           const std::string& communicator) {
  attempt->transport = environment_.transport.get();
  if (communicator.empty()) return absl::OkStatus();
  DeviceRanges* const device_ranges = environment_.device_ranges.get();
  if (device_ranges == nullptr) {
    return absl::FailedPreconditionError(
        "expected an attempt without NCCL, which this server does not have");
  }
  attempt->transport = device_ranges;
  return device_ranges->Begin(attempt->id, communicator, attempt);
}

absl::Status MirrorMember::PrepareMemory(
    Attempt& attempt, std::vector<SumAttempt::Round> rounds) {
  const bool is_on_device = attempt.transport != environment_.transport.get();
  Backend* const device = is_on_device ? rounds.front().own.device : nullptr;
  if (is_on_device && device == nullptr) {
    return absl::FailedPreconditionError(
        "expected an attempt without NCCL, since tensors are on the host");
  }
  ASSIGN_OR_RETURN(SumAttempt sums,
                   SumAttempt::Create(environment_.group, std::move(rounds),
                                      attempt.account, device));
  attempt.sums = std::make_unique<SumAttempt>(std::move(sums));
  RangesToReceive contributions = attempt.sums->ContributionsToReceive();
  RangesToReceive of_sums = attempt.sums->SumsToReceive();
  attempt.received_bytes = BytesOf(contributions) + BytesOf(of_sums);
  attempt.transport->Expect(attempt.id, 0, std::move(contributions));
  attempt.transport->Expect(attempt.id, 1, std::move(of_sums));
  return absl::OkStatus();
}

void MirrorMember::Run(const v1::RunSumsRequest& message,
                       MirrorCallback<v1::RunSumsRequest> done) {
  AttemptPtr attempt;
  {
    MutexLock lock(&mutex_);
    const auto found = attempts_.find(message.attempt());
    if (found != attempts_.end() && found->second->may_run) {
      attempt = found->second;
      attempt->may_run = false;
    }
  }
  if (attempt == nullptr) return std::move(done)(NotUnderWay());
  attempt->done = std::move(done);
  attempt->started = environment_.alarms->Now();
  attempt->timeout = std::min(absl::Milliseconds(message.timeout_ms()),
                              environment_.times.attempt);
  if (!attempt->sums->has_to_gather()) return SendContributions(attempt);
  environment_.executor->Submit(
      [self = shared_from_this(), attempt] { self->GatherAndSend(attempt); });
}

bool MirrorMember::IsUnderWay(const Attempt& attempt) {
  MutexLock lock(&mutex_);
  const auto found = attempts_.find(attempt.id);
  return found != attempts_.end() && found->second.get() == &attempt;
}

// Runs on the executor, which Stop waits for: after that there are no devices.
void MirrorMember::GatherAndSend(const AttemptPtr& attempt) {
  if (!IsUnderWay(*attempt)) return EndRun(attempt, NotUnderWay());
  attempt->sums->Gather(
      [self = shared_from_this(), attempt](absl::Status status) {
        // Sending may take a while, and a device calls on a thread of its own.
        self->environment_.executor->Submit(
            [self, attempt, status = std::move(status)]() mutable {
              if (!status.ok()) return self->EndRun(attempt, std::move(status));
              self->SendContributions(attempt);
            });
      });
}

void MirrorMember::SendContributions(const AttemptPtr& attempt) {
  RangesToSend sends = attempt->sums->ContributionsToSend();
  attempt->sent_bytes = BytesOf(sends);
  attempt->transport->Move(
      attempt->id, 0, std::move(sends), attempt->timeout,
      [self = shared_from_this(), attempt](absl::Status status) {
        self->OnContributions(attempt, std::move(status));
      });
}

// Sums take long, and transports call on threads that others need.
void MirrorMember::OnContributions(const AttemptPtr& attempt,
                                   absl::Status status) {
  if (!status.ok()) return EndRun(attempt, std::move(status));
  environment_.executor->Submit(
      [self = shared_from_this(), attempt] { self->SumAndSend(attempt); });
}

void MirrorMember::SumAndSend(const AttemptPtr& attempt) {
  if (!IsUnderWay(*attempt)) return EndRun(attempt, NotUnderWay());
  absl::Status status = attempt->sums->SumOwnRanges(*environment_.backend);
  if (!status.ok()) return EndRun(attempt, std::move(status));
  RangesToSend sends = attempt->sums->SumsToSend();
  attempt->sent_bytes += BytesOf(sends);
  attempt->transport->Move(
      attempt->id, 1, std::move(sends), attempt->timeout,
      [self = shared_from_this(), attempt](absl::Status status) {
        self->OnSums(attempt, std::move(status));
      });
}

void MirrorMember::OnSums(const AttemptPtr& attempt, absl::Status status) {
  if (!status.ok()) return EndRun(attempt, std::move(status));
  EndTransfers(attempt->id);
  {
    MutexLock lock(&mutex_);
    if (attempts_.erase(attempt->id) == 0) {
      status = NotUnderWay();
    } else {
      std::vector<SumOfRound> sums = attempt->sums->TakeSums();
      for (size_t i = 0; i < sums.size(); ++i) {
        const KeyName& name = attempt->keys[i];
        const auto& [step, version] = attempt->rounds[i];
        const Waiting* const waiting = FindWaiting(name, step, version);
        // Else the key has gone, or has another round.
        if (waiting == nullptr || waiting->attempt != attempt->id) continue;
        sums_.Keep(name, {attempt->id, step, version, std::move(sums[i])});
      }
    }
  }
  EndRun(attempt, std::move(status));
}

void MirrorMember::EndRun(const AttemptPtr& attempt, absl::Status status) {
  EndTransfers(attempt->id);
  {
    MutexLock lock(&mutex_);
    attempts_.erase(attempt->id);
  }
  CountAttempt(*attempt, status);
  if (!status.ok()) return std::move(attempt->done)(std::move(status));
  std::move(attempt->done)(v1::RunSumsResponse());
}

void MirrorMember::CountAttempt(const Attempt& attempt,
                                const absl::Status& status) {
  MirrorCounts& counts = *environment_.counts;
  if (!status.ok()) {
    ++counts.attempts_failed;
    return;
  }
  ++counts.attempts_whole;
  if (attempt.transport != environment_.transport.get()) {
    ++counts.attempts_on_devices;
  }
  counts.nanoseconds +=
      absl::ToInt64Nanoseconds(environment_.alarms->Now() - attempt.started);
  counts.sent_bytes += attempt.sent_bytes;
  counts.received_bytes += attempt.received_bytes;
}

void MirrorMember::DropAttempts(const std::vector<uint64_t>& attempts) {
  for (const uint64_t id : attempts) {
    if (id == 0) continue;
    // Ranges are written to its memory until the transport has forgotten it.
    AttemptPtr dropped;
    {
      MutexLock lock(&mutex_);
      const auto found = attempts_.find(id);
      if (found != attempts_.end()) {
        dropped = std::move(found->second);
        attempts_.erase(found);
      }
    }
    EndTransfers(id);
  }
}

void MirrorMember::EndTransfers(uint64_t attempt) {
  environment_.transport->EndAttempt(attempt);
  if (environment_.device_ranges != nullptr) {
    environment_.device_ranges->EndAttempt(attempt);
  }
}

}  // namespace tensorkv
