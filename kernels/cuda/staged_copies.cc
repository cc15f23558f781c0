#include "kernels/cuda/staged_copies.h"

#include <cstring>
#include <utility>

#include "base/status_macros.h"

namespace tensorkv {

struct StagedCopies::HostCall {
  HostCall(std::vector<MemoryCopy> copies, CopiedCallback done)
      : cursor(std::move(copies)), done(std::move(done)) {}

  // Guarded by the mutex of the copies until the call is done.
  CopyCursor cursor;
  int num_parts_under_way = 0;
  absl::Status status;
  CopiedCallback done;
};

struct StagedCopies::HostPart {
  std::shared_ptr<HostCall> call;
  PinnedSlot slot;
  std::vector<MemoryCopy> pieces;
  // Who empties the slot.
  Executor* emptying = nullptr;
};

absl::StatusOr<std::unique_ptr<StagedCopies>> StagedCopies::Create(
    DevicePool* pool, Executor* submission,
    const StagedCopiesOptions& options) {
  Device* const device = &pool->device();
  std::unique_ptr<StagedCopies> copies(
      new StagedCopies(pool, submission, 2 * options.num_slots));
  for (auto* slots : {&copies->slots_to_device_, &copies->slots_to_host_}) {
    ASSIGN_OR_RETURN(*slots, PinnedSlots::Create(device, options.num_slots,
                                                 options.slot_bytes));
  }
  ASSIGN_OR_RETURN(copies->to_device_,
                   StreamLane::Create(device, StreamUse::kToDevice));
  ASSIGN_OR_RETURN(copies->to_host_,
                   StreamLane::Create(device, StreamUse::kToHost));
  return copies;
}

absl::Status StagedCopies::ToDevice(absl::Span<const MemoryCopy> copies) {
  CopyCursor cursor({copies.begin(), copies.end()});
  std::vector<std::shared_ptr<Completion>> parts;
  while (!cursor.is_done()) {
    PinnedSlot slot = slots_to_device_->Acquire();
    std::vector<MemoryCopy> pieces =
        cursor.Next(slots_to_device_->slot_bytes());
    // The copy that page-locked memory costs.
    char* end = slot.data();
    for (const MemoryCopy& piece : pieces) {
      std::memcpy(end, piece.from, piece.size_bytes);
      end += piece.size_bytes;
    }
    parts.push_back(StartToDevice(std::move(slot), std::move(pieces)));
  }
  absl::Status status;
  for (const auto& part : parts) status.Update(part->Wait());
  return status;
}

std::shared_ptr<Completion> StagedCopies::StartToDevice(
    PinnedSlot slot, std::vector<MemoryCopy> pieces) {
  auto copied = std::make_shared<Completion>();
  submission_.Submit([this, copied, pieces = std::move(pieces),
                      slot = std::move(slot)]() mutable {
    absl::Status started = EnqueueToDevice(slot, pieces);
    to_device_->WhenDone([copied, started = std::move(started),
                          slot = std::move(slot)](absl::Status done) mutable {
      { const PinnedSlot released = std::move(slot); }
      started.Update(done);
      copied->Set(started);
    });
  });
  return copied;
}

absl::Status StagedCopies::EnqueueToDevice(
    const PinnedSlot& slot, absl::Span<const MemoryCopy> pieces) {
  RETURN_IF_ERROR(pool_.OrderBehindAllocations(to_device_->stream()));
  const char* from = slot.data();
  for (const MemoryCopy& piece : pieces) {
    RETURN_IF_ERROR(
        to_device_->stream().CopyToDevice(piece.to, from, piece.size_bytes));
    from += piece.size_bytes;
  }
  return absl::OkStatus();
}

void StagedCopies::ToHost(std::vector<MemoryCopy> copies, CopiedCallback done) {
  auto call = std::make_shared<HostCall>(std::move(copies), std::move(done));
  if (call->cursor.is_done()) return std::move(call->done)(absl::OkStatus());
  {
    MutexLock lock(&mutex_);
    waiting_.push_back(std::move(call));
  }
  StartParts();
}

void StagedCopies::StartParts() {
  while (const std::shared_ptr<HostPart> part = TakePart()) StartToHost(part);
}

// Whoever finds no slot leaves its call to those who have them: they come here
// again when they are done.
std::shared_ptr<StagedCopies::HostPart> StagedCopies::TakePart() {
  MutexLock lock(&mutex_);
  if (waiting_.empty()) return nullptr;
  std::optional<PinnedSlot> slot = slots_to_host_->TryAcquire();
  if (!slot) return nullptr;
  std::shared_ptr<HostCall> call = std::move(waiting_.front());
  waiting_.pop_front();
  ++call->num_parts_under_way;
  auto part = std::make_shared<HostPart>();
  part->slot = *std::move(slot);
  part->pieces = call->cursor.Next(slots_to_host_->slot_bytes());
  part->emptying = &emptying_[next_emptying_++ % kNumEmptying];
  part->call = call;
  if (!call->cursor.is_done()) waiting_.push_back(std::move(call));
  return part;
}

void StagedCopies::StartToHost(const std::shared_ptr<HostPart>& part) {
  submission_.Submit([this, part] {
    absl::Status started = EnqueueToHost(*part);
    to_host_->WhenDone(
        [this, part, started = std::move(started)](absl::Status done) mutable {
          started.Update(done);
          part->emptying->Submit(
              [this, part, status = std::move(started)]() mutable {
                FinishPart(*part, std::move(status));
              });
        });
  });
}

absl::Status StagedCopies::EnqueueToHost(const HostPart& part) {
  RETURN_IF_ERROR(pool_.OrderBehindAllocations(to_host_->stream()));
  char* to = part.slot.data();
  for (const MemoryCopy& piece : part.pieces) {
    RETURN_IF_ERROR(
        to_host_->stream().CopyToHost(to, piece.from, piece.size_bytes));
    to += piece.size_bytes;
  }
  return absl::OkStatus();
}

void StagedCopies::FinishPart(HostPart& part, absl::Status status) {
  // The copy that page-locked memory costs.
  const char* from = part.slot.data();
  for (const MemoryCopy& piece : part.pieces) {
    if (!status.ok()) break;
    std::memcpy(piece.to, from, piece.size_bytes);
    from += piece.size_bytes;
  }
  { const PinnedSlot released = std::move(part.slot); }
  StartParts();
  // Last: when the callbacks of all calls have begun, this object may go.
  const std::shared_ptr<HostCall> call = std::move(part.call);
  if (EndPart(*call, status)) std::move(call->done)(call->status);
}

bool StagedCopies::EndPart(HostCall& call, const absl::Status& status) {
  MutexLock lock(&mutex_);
  call.status.Update(status);
  return --call.num_parts_under_way == 0 && call.cursor.is_done();
}

}  // namespace tensorkv
