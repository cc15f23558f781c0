#include "kernels/cuda/staged_copies.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "kernels/cuda/copy_cursor.h"
#include "kernels/cuda/pinned_copies.h"

namespace tensorkv {

struct StagedCopies::HostCall {
  HostCall(size_t num_parts, std::vector<MemoryCopy> copies, PlanCallback done)
      : cursor(std::move(copies)), end(num_parts, std::move(done)) {}

  // Guarded by the mutex of the copies.
  CopyCursor cursor;
  // Ends the call with the last of its parts, or where no more are started.
  LastOfMany end;
};

struct StagedCopies::HostPart {
  std::shared_ptr<HostCall> call;
  // What passes through a slot, if anything does.
  PinnedSlots::Slot slot;
  std::vector<CopyCursor::Piece> pieces;
  // Set when the part is started.
  PinnedCopies copies;
};

StagedCopies::StagedCopies(DevicePool* pool, PinnedArena* arena,
                           const StagedCopiesOptions& options)
    : pool_(*pool),
      arena_(*arena),
      num_slots_(options.num_slots),
      slot_bytes_((options.slot_bytes + kBufferAlignment - 1) /
                  kBufferAlignment * kBufferAlignment) {}

absl::StatusOr<std::unique_ptr<StagedCopies>> StagedCopies::Create(
    DevicePool* pool, PinnedArena* arena, const StagedCopiesOptions& options) {
  Device* const device = &pool->device();
  std::unique_ptr<StagedCopies> copies(new StagedCopies(pool, arena, options));
  for (auto* slots : {&copies->slots_to_device_, &copies->slots_to_host_}) {
    ASSIGN_OR_RETURN(*slots, PinnedSlots::Create(device, copies->num_slots_,
                                                 copies->slot_bytes_));
  }
  ASSIGN_OR_RETURN(copies->to_device_,
                   StreamLane::Create(device, StreamUse::kToDevice));
  ASSIGN_OR_RETURN(copies->to_host_,
                   StreamLane::Create(device, StreamUse::kToHost));
  pool->OrderFreesBehind(copies->to_device_.get());
  return copies;
}

StagedCopies::~StagedCopies() {
  if (to_device_) to_device_->WaitForCallbacks(to_device_->num_started());
  pool_.OrderFreesBehind(nullptr);
}

// A small copy is looked up by its first byte alone: its memory is that of a
// buffer, which lies in one block.
std::vector<MemoryCopy> StagedCopies::ExtractPinned(
    std::vector<MemoryCopy>& copies, bool to_device) const {
  absl::Span<const char> block;  // where the last was
  const auto pinned = std::stable_partition(
      copies.begin(), copies.end(), [&](const MemoryCopy& copy) {
        const char* const begin = to_device ? copy.from : copy.to;
        if (copy.size_bytes >= PinnedCopies::kMinTransferBytes) {
          return !arena_.CanRead(begin, copy.size_bytes);
        }
        if (begin < block.data() || begin >= block.data() + block.size()) {
          block = arena_.BlockOf(begin);
        }
        return block.empty() || copy.size_bytes == 0;
      });
  std::vector<MemoryCopy> taken(pinned, copies.end());
  copies.erase(pinned, copies.end());
  return taken;
}

// A part that cannot be started ends the call; what was started goes on.
absl::Status StagedCopies::ToDevice(absl::Span<const MemoryCopy> copies,
                                    PlanCallback done) {
  const auto call = std::make_shared<LastOfMany>(1, std::move(done));
  std::vector<MemoryCopy> staged(copies.begin(), copies.end());
  std::vector<MemoryCopy> pinned = ExtractPinned(staged, /*to_device=*/true);
  absl::Status started;
  if (!pinned.empty()) started = StartPinned(std::move(pinned), {}, call);
  CopyCursor cursor(std::move(staged));
  while (started.ok() && !cursor.is_done()) {
    PinnedSlots::Slot slot = slots_to_device_->Acquire();
    std::vector<MemoryCopy> pieces;
    for (const auto& [copy, offset] : cursor.Next(slot_bytes_)) {
      char* const in_slot = slot.get() + offset;
      // The copy that page-locked memory costs.
      std::memcpy(in_slot, copy.from, copy.size_bytes);
      pieces.push_back({in_slot, copy.to, copy.size_bytes});
    }
    started = StartPinned(std::move(pieces), std::move(slot), call);
  }
  call->End(started);
  return started;
}

absl::Status StagedCopies::StartPinned(std::vector<MemoryCopy> copies,
                                       PinnedSlots::Slot slot,
                                       std::shared_ptr<LastOfMany> call) {
  call->Add();
  auto pinned =
      std::make_unique<PinnedCopies>(std::move(copies), pool_, arena_);
  const PinnedCopies& started = *pinned;
  return to_device_->Run(
      [&](Stream& stream) -> absl::Status {
        RETURN_IF_ERROR(pool_.OrderBehindAllocations(stream));
        return started.Enqueue(/*to_device=*/true, stream);
      },
      [pinned = std::move(pinned), slot = std::move(slot),
       call = std::move(call)](const absl::Status& status) mutable {
        // What they had is free before anybody hears of the end: the slot
        // first, since freeing a table may wait for the device.
        slot = nullptr;
        pinned = nullptr;
        call->End(status);
      });
}

absl::StatusOr<bool> StagedCopies::EnqueueToDevice(
    absl::Span<const MemoryCopy> copies, StreamLane::Mark& mark) {
  for (const MemoryCopy& copy : copies) {
    if (copy.size_bytes < PinnedCopies::kMinTransferBytes ||
        !arena_.CanRead(copy.from, copy.size_bytes)) {
      return false;
    }
  }
  const PinnedCopies transfers({copies.begin(), copies.end()}, pool_, arena_);
  RETURN_IF_ERROR(to_device_->Enqueue(
      [&](Stream& stream) -> absl::Status {
        RETURN_IF_ERROR(pool_.OrderBehindAllocations(stream));
        return transfers.Enqueue(/*to_device=*/true, stream);
      },
      mark));
  return true;
}

void StagedCopies::ToHost(std::vector<MemoryCopy> copies, PlanCallback done) {
  std::vector<MemoryCopy> pinned = ExtractPinned(copies, /*to_device=*/false);
  const bool has_rest =
      std::any_of(copies.begin(), copies.end(),
                  [](const MemoryCopy& copy) { return copy.size_bytes > 0; });
  const size_t num_parts = (has_rest ? 1 : 0) + (pinned.empty() ? 0 : 1);
  if (num_parts == 0) return std::move(done)(absl::OkStatus());
  const auto call =
      std::make_shared<HostCall>(num_parts, std::move(copies), std::move(done));
  if (has_rest) {
    {
      MutexLock lock(&mutex_);
      waiting_.push_back(call);
    }
    StartParts();
  }
  if (pinned.empty()) return;
  auto part = std::make_shared<HostPart>();
  part->call = call;
  StartToHost(std::move(pinned), std::move(part));
}

void StagedCopies::StartParts() {
  while (std::shared_ptr<HostPart> part = NextPart()) {
    std::vector<MemoryCopy> copies;
    for (const auto& [copy, offset] : part->pieces) {
      copies.push_back({copy.from, part->slot.get() + offset, copy.size_bytes});
    }
    StartToHost(std::move(copies), std::move(part));
  }
}

// Whoever finds no slot leaves its call to those who have them: they come here
// again when they are done.
std::shared_ptr<StagedCopies::HostPart> StagedCopies::NextPart() {
  MutexLock lock(&mutex_);
  if (waiting_.empty()) return nullptr;
  PinnedSlots::Slot slot = slots_to_host_->TryAcquire();
  if (slot == nullptr) return nullptr;
  auto part = std::make_shared<HostPart>();
  part->call = std::move(waiting_.front());
  waiting_.pop_front();
  part->slot = std::move(slot);
  part->pieces = part->call->cursor.Next(slot_bytes_);
  // The last part is for what was to be started.
  if (part->call->cursor.is_done()) return part;
  part->call->end.Add();
  waiting_.push_back(part->call);
  return part;
}

void StagedCopies::StartToHost(std::vector<MemoryCopy> copies,
                               std::shared_ptr<HostPart> part) {
  part->copies = PinnedCopies(std::move(copies), pool_, arena_);
  const HostPart& started = *part;
  Executor& emptying = emptying_[next_emptying_++ % kNumEmptying];
  to_host_
      ->Run(
          [&](Stream& stream) -> absl::Status {
            RETURN_IF_ERROR(pool_.OrderBehindAllocations(stream));
            RETURN_IF_ERROR(to_device_->OrderBehind(stream));
            return started.copies.Enqueue(/*to_device=*/false, stream);
          },
          [this, &emptying, part = std::move(part)](absl::Status status) {
            emptying.Submit(
                [this, part, status] { FinishPart(*part, status); });
          })
      .IgnoreError();  // the callback is told
}

// Freeing a table may wait for the device, so the slot is released before.
void StagedCopies::FinishPart(HostPart& part, const absl::Status& status) {
  if (part.slot != nullptr) {
    for (const auto& [copy, offset] : part.pieces) {
      if (!status.ok()) break;
      std::memcpy(copy.to, part.slot.get() + offset, copy.size_bytes);
    }
    part.slot = nullptr;
    StartParts();
  }
  part.copies = {};
  // Last: when the callbacks of all calls have begun, this object may go.
  const std::shared_ptr<HostCall> call = std::move(part.call);
  call->end.End(status);
}

}  // namespace tensorkv
