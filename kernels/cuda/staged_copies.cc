#include "kernels/cuda/staged_copies.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace tensorkv {
namespace {

// Starting a transfer takes about as long as copying so many bytes in parts.
constexpr size_t kMinDirectBytes = 64 << 10;

}  // namespace

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
  // Set when the part is started.
  StagedPart staged;
  // Who empties the slot.
  Executor* emptying = nullptr;
};

absl::StatusOr<std::unique_ptr<StagedCopies>> StagedCopies::Create(
    DevicePool* pool, const PinnedArena* arena, Executor* submission,
    const StagedCopiesOptions& options) {
  Device* const device = &pool->device();
  std::unique_ptr<StagedCopies> copies(
      new StagedCopies(pool, arena, submission, options));
  const size_t room = StagedPart::RoomFor(options.slot_bytes);
  for (auto* slots : {&copies->slots_to_device_, &copies->slots_to_host_}) {
    ASSIGN_OR_RETURN(*slots,
                     PinnedSlots::Create(device, options.num_slots, room));
  }
  for (auto* scratch :
       {&copies->scratch_to_device_, &copies->scratch_to_host_}) {
    ASSIGN_OR_RETURN(*scratch, pool->Allocate(room));
  }
  ASSIGN_OR_RETURN(copies->to_device_,
                   StreamLane::Create(device, StreamUse::kToDevice));
  ASSIGN_OR_RETURN(copies->to_host_,
                   StreamLane::Create(device, StreamUse::kToHost));
  RETURN_IF_ERROR(copies->ClearScratch());
  return copies;
}

// What lies between the pieces of a part is copied with them.
absl::Status StagedCopies::ClearScratch() {
  Stream& stream = to_host_->stream();
  RETURN_IF_ERROR(pool_.OrderBehindAllocations(stream));
  RETURN_IF_ERROR(
      stream.SetZero(scratch_to_host_.data(), scratch_to_host_.size_bytes()));
  return stream.Synchronize();
}

std::vector<MemoryCopy> StagedCopies::TakeDirect(
    std::vector<MemoryCopy>& copies, Direction direction) const {
  const bool to_device = direction == Direction::kToDevice;
  const auto direct = std::stable_partition(
      copies.begin(), copies.end(), [&](const MemoryCopy& copy) {
        return copy.size_bytes < kMinDirectBytes ||
               !arena_.Has(to_device ? copy.from : copy.to, copy.size_bytes);
      });
  std::vector<MemoryCopy> taken(direct, copies.end());
  copies.erase(direct, copies.end());
  return taken;
}

void StagedCopies::CopyDirectly(std::vector<MemoryCopy> copies,
                                Direction direction, CopiedCallback done) {
  if (copies.empty()) return std::move(done)(absl::OkStatus());
  submission_.Submit([this, copies = std::move(copies), direction,
                      done = std::move(done)]() mutable {
    absl::Status status = EnqueueDirect(copies, direction);
    LaneOf(direction).WhenDone(
        [status = std::move(status),
         done = std::move(done)](const absl::Status& ended) mutable {
          status.Update(ended);
          std::move(done)(std::move(status));
        });
  });
}

absl::Status StagedCopies::EnqueueDirect(absl::Span<const MemoryCopy> copies,
                                         Direction direction) {
  Stream& stream = LaneOf(direction).stream();
  RETURN_IF_ERROR(pool_.OrderBehindAllocations(stream));
  for (const MemoryCopy& copy : copies) {
    RETURN_IF_ERROR(
        direction == Direction::kToDevice
            ? stream.CopyToDevice(copy.to, copy.from, copy.size_bytes)
            : stream.CopyToHost(copy.to, copy.from, copy.size_bytes));
  }
  return absl::OkStatus();
}

absl::Status StagedCopies::ToDevice(absl::Span<const MemoryCopy> copies) {
  std::vector<MemoryCopy> staged(copies.begin(), copies.end());
  const Answer<absl::Status> directly;
  CopyDirectly(TakeDirect(staged, Direction::kToDevice), Direction::kToDevice,
               [directly](absl::Status status) { directly.Set(status); });
  CopyCursor cursor(std::move(staged));
  std::vector<Answer<absl::Status>> parts = {directly};
  while (!cursor.is_done()) {
    PinnedSlot slot = slots_to_device_->Acquire();
    StagedPart part(NextPieces(cursor), Direction::kToDevice,
                    scratch_to_device_.data(), arena_);
    part.FillSlot(slot.data());  // the copy that page-locked memory costs
    parts.push_back(StartToDevice(std::move(slot), std::move(part)));
  }
  absl::Status status;
  for (const auto& part : parts) status.Update(part.Wait());
  return status;
}

Answer<absl::Status> StagedCopies::StartToDevice(PinnedSlot slot,
                                                 StagedPart part) {
  const Answer<absl::Status> copied;
  submission_.Submit([this, copied, part = std::move(part),
                      slot = std::move(slot)]() mutable {
    absl::Status started = Enqueue(part, slot, *to_device_);
    to_device_->WhenDone([copied, started = std::move(started),
                          slot = std::move(slot)](absl::Status done) mutable {
      { const PinnedSlot released = std::move(slot); }
      started.Update(done);
      copied.Set(started);
    });
  });
  return copied;
}

absl::Status StagedCopies::Enqueue(const StagedPart& part,
                                   const PinnedSlot& slot, StreamLane& lane) {
  RETURN_IF_ERROR(pool_.OrderBehindAllocations(lane.stream()));
  return part.Enqueue(slot.data(), lane.stream());
}

void StagedCopies::ToHost(std::vector<MemoryCopy> copies, CopiedCallback done) {
  std::vector<MemoryCopy> direct = TakeDirect(copies, Direction::kToHost);
  auto call = std::make_shared<HostCall>(std::move(copies), std::move(done));
  if (!direct.empty()) return StartWithDirect(std::move(direct), call);
  if (call->cursor.is_done()) return std::move(call->done)(absl::OkStatus());
  StartRest(call);
}

// The direct copies are a part as the others are.
void StagedCopies::StartWithDirect(std::vector<MemoryCopy> direct,
                                   const std::shared_ptr<HostCall>& call) {
  call->num_parts_under_way = 1;
  if (!call->cursor.is_done()) StartRest(call);
  CopyDirectly(std::move(direct), Direction::kToHost,
               [this, call](absl::Status status) {
                 TakeEmptying().Submit([this, call, status] {
                   if (EndPart(*call, status)) {
                     std::move(call->done)(call->status);
                   }
                 });
               });
}

void StagedCopies::StartRest(std::shared_ptr<HostCall> call) {
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
  part->pieces = NextPieces(call->cursor);
  part->emptying = &TakeEmptying();
  part->call = call;
  if (!call->cursor.is_done()) waiting_.push_back(std::move(call));
  return part;
}

void StagedCopies::StartToHost(const std::shared_ptr<HostPart>& part) {
  part->staged = StagedPart(std::move(part->pieces), Direction::kToHost,
                            scratch_to_host_.data(), arena_);
  submission_.Submit([this, part] {
    absl::Status started = Enqueue(part->staged, part->slot, *to_host_);
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

void StagedCopies::FinishPart(HostPart& part, absl::Status status) {
  if (status.ok()) part.staged.EmptySlot(part.slot.data());
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
