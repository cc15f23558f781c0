#include "service/mirror/delivered_ranges.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

constexpr size_t kBytesPerCall = 1 << 20;
constexpr int kPartsPerCall = 1024;

absl::Status NoSuchAttempt() {
  return absl::FailedPreconditionError("the attempt is not under way");
}

}  // namespace

DeliveredRanges::AttemptPtr DeliveredRanges::Find(uint64_t attempt) {
  MutexLock lock(&mutex_);
  const auto found = attempts_.find(attempt);
  return found == attempts_.end() ? nullptr : found->second;
}

void DeliveredRanges::Expect(uint64_t attempt, int phase,
                             RangesToReceive receives) {
  AttemptPtr found;
  {
    MutexLock lock(&mutex_);
    AttemptPtr& place = attempts_[attempt];
    if (place == nullptr) place = std::make_shared<Attempt>();
    found = place;
  }
  MutexLock lock(&found->mutex);
  Phase& expected = found->phases[phase];
  expected.received.resize(receives.size());
  expected.receives = std::move(receives);
}

void DeliveredRanges::Move(uint64_t attempt, int phase, RangesToSend sends,
                           absl::Duration timeout, Callback done) {
  const AttemptPtr found = Find(attempt);
  if (found == nullptr) return std::move(done)(NoSuchAttempt());
  bool is_forgotten = false;
  {
    MutexLock lock(&found->mutex);
    is_forgotten = found->is_forgotten;
    Phase& moved = found->phases[phase];
    moved.sent.resize(sends.size());
    moved.is_calling.resize(sends.size());
    moved.timeout = timeout;
    moved.sends = std::move(sends);
    moved.done = std::move(done);
    moved.alarm = alarms_.Schedule(alarms_.Now() + timeout,
                                   [self = shared_from_this(), found, phase] {
                                     self->OnTimeout(found, phase);
                                   });
  }
  if (is_forgotten) return EndPhase(found, phase, NoSuchAttempt());
  for (uint32_t to = 0; to < group_.size(); ++to) {
    if (to != group_.own) SendNext(attempt, found, phase, to);
  }
  EndIfComplete(found, phase);
}

void DeliveredRanges::EndAttempt(uint64_t attempt) {
  AttemptPtr found;
  {
    MutexLock lock(&mutex_);
    const auto place = attempts_.find(attempt);
    if (place == attempts_.end()) return;
    found = std::move(place->second);
    attempts_.erase(place);
  }
  {
    MutexLock lock(&found->mutex);
    found->is_forgotten = true;
  }
  for (int phase = 0; phase < kNumPhases; ++phase) {
    EndPhase(found, phase, absl::CancelledError("the attempt was given up"));
  }
}

void DeliveredRanges::FillMessage(
    const std::vector<absl::Span<const char>>& pieces, Cursor& cursor,
    v1::DeliverRangesRequest& message) {
  size_t headroom = kBytesPerCall;
  while (headroom > 0 && cursor.piece < pieces.size() &&
         message.parts_size() < kPartsPerCall) {
    const absl::Span<const char> piece = pieces[cursor.piece];
    const size_t bytes = std::min(headroom, piece.size() - cursor.offset);
    v1::RangePart& part = *message.add_parts();
    part.set_piece(static_cast<uint32_t>(cursor.piece));
    part.set_offset(cursor.offset);
    part.set_data(piece.data() + cursor.offset, bytes);
    headroom -= bytes;
    cursor.offset += bytes;
    if (cursor.offset == piece.size()) cursor = {.piece = cursor.piece + 1};
  }
}

void DeliveredRanges::SendNext(uint64_t id, const AttemptPtr& attempt,
                               int phase, uint32_t to) {
  auto request = group_.NewRequest<v1::DeliverRangesRequest>();
  absl::Duration timeout;
  {
    MutexLock lock(&attempt->mutex);
    Phase& moved = attempt->phases[phase];
    timeout = moved.timeout;
    moved.is_calling[to] = false;
    if (attempt->is_forgotten || !moved.done) return;
    if (moved.sent[to].piece == moved.sends[to].size()) return;
    request.set_attempt(id);
    request.set_phase(phase);
    FillMessage(moved.sends[to], moved.sent[to], request);
    moved.is_calling[to] = true;
  }
  group_.peers[to]->Call(
      std::move(request), timeout,
      [self = shared_from_this(), id, attempt, phase,
       to](const absl::StatusOr<v1::DeliverRangesResponse>& response) {
        if (!response.ok()) {
          return self->EndPhase(attempt, phase, response.status());
        }
        self->SendNext(id, attempt, phase, to);
        self->EndIfComplete(attempt, phase);
      });
}

absl::Status DeliveredRanges::ReceivePart(Phase& phase, uint32_t from,
                                          const v1::RangePart& part) {
  const std::vector<absl::Span<char>>& pieces = phase.receives[from];
  Cursor& cursor = phase.received[from];
  const bool is_next =
      part.piece() == cursor.piece && part.offset() == cursor.offset;
  if (!is_next || cursor.piece >= pieces.size() ||
      part.data().size() > pieces[cursor.piece].size() - cursor.offset) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected byte ", cursor.offset, " of piece ", cursor.piece, " of ",
        pieces.size(), ", got ", part.data().size(), " bytes at ",
        part.offset(), " of piece ", part.piece()));
  }
  const absl::Span<char> piece = pieces[cursor.piece];
  std::memcpy(piece.data() + cursor.offset, part.data().data(),
              part.data().size());
  cursor.offset += part.data().size();
  if (cursor.offset == piece.size()) cursor = {.piece = cursor.piece + 1};
  return absl::OkStatus();
}

absl::Status DeliveredRanges::Receive(const v1::DeliverRangesRequest& message) {
  const uint32_t from = message.from().place();
  const AttemptPtr attempt = Find(message.attempt());
  if (attempt == nullptr) return NoSuchAttempt();
  if (message.phase() >= kNumPhases) {
    return absl::InvalidArgumentError("expected phase 0 or 1");
  }
  {
    MutexLock lock(&attempt->mutex);
    if (attempt->is_forgotten) return NoSuchAttempt();
    Phase& phase = attempt->phases[message.phase()];
    if (from >= phase.receives.size()) {
      return absl::InvalidArgumentError("expected a member of the group");
    }
    for (const v1::RangePart& part : message.parts()) {
      RETURN_IF_ERROR(ReceivePart(phase, from, part));
    }
  }
  EndIfComplete(attempt, static_cast<int>(message.phase()));
  return absl::OkStatus();
}

void DeliveredRanges::OnTimeout(const AttemptPtr& attempt, int phase) {
  std::vector<std::string> missing;
  {
    MutexLock lock(&attempt->mutex);
    const Phase& moved = attempt->phases[phase];
    for (uint32_t i = 0; i < group_.size(); ++i) {
      const bool is_here = moved.received[i].piece == moved.receives[i].size();
      const bool is_there =
          moved.sent[i].piece == moved.sends[i].size() && !moved.is_calling[i];
      if (!is_here || !is_there) missing.push_back(group_.servers[i]);
    }
  }
  EndPhase(attempt, phase,
           absl::DeadlineExceededError(
               absl::StrCat("no ranges from or to server ",
                            absl::StrJoin(missing, ", "), " in time")));
}

void DeliveredRanges::EndIfComplete(const AttemptPtr& attempt, int phase) {
  {
    MutexLock lock(&attempt->mutex);
    const Phase& moved = attempt->phases[phase];
    if (!moved.done) return;
    for (uint32_t i = 0; i < group_.size(); ++i) {
      if (moved.received[i].piece < moved.receives[i].size()) return;
      if (moved.sent[i].piece < moved.sends[i].size()) return;
      if (moved.is_calling[i]) return;
    }
  }
  EndPhase(attempt, phase, absl::OkStatus());
}

void DeliveredRanges::EndPhase(const AttemptPtr& attempt, int phase,
                               absl::Status status) {
  Callback done;
  Alarms::Id alarm = 0;
  {
    MutexLock lock(&attempt->mutex);
    Phase& moved = attempt->phases[phase];
    if (!moved.done) return;
    done = std::exchange(moved.done, nullptr);
    alarm = moved.alarm;
  }
  alarms_.Cancel(alarm);
  std::move(done)(std::move(status));
}

}  // namespace tensorkv
