#include "kernels/cuda/staged_copies.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "base/status_macros.h"

namespace tensorkv {
namespace {

// Slots that one call to the host takes: enough for copying and emptying to
// overlap, few enough that calls share.
constexpr size_t kMaxPartsToHost = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<StagedCopies>> StagedCopies::Create(
    DevicePool* pool, Executor* submission,
    const StagedCopiesOptions& options) {
  Device* const device = &pool->device();
  std::unique_ptr<StagedCopies> copies(new StagedCopies(pool, submission));
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

absl::Status StagedCopies::ToDevice(const char* host, char* device,
                                    size_t size_bytes) {
  std::vector<std::shared_ptr<Completion>> parts;
  const size_t slot_bytes = slots_to_device_->slot_bytes();
  for (size_t offset = 0; offset < size_bytes; offset += slot_bytes) {
    const size_t part_bytes = std::min(slot_bytes, size_bytes - offset);
    PinnedSlot slot = slots_to_device_->Acquire();
    // The copy that page-locked memory costs.
    std::memcpy(slot.data(), host + offset, part_bytes);
    parts.push_back(
        StartToDevice(std::move(slot), device + offset, part_bytes));
  }
  absl::Status status;
  for (const auto& part : parts) status.Update(part->Wait());
  return status;
}

std::shared_ptr<Completion> StagedCopies::StartToDevice(PinnedSlot slot,
                                                        char* device,
                                                        size_t size_bytes) {
  auto copied = std::make_shared<Completion>();
  submission_.Submit([this, copied, device, size_bytes,
                      slot = std::move(slot)]() mutable {
    absl::Status started = EnqueueToDevice(slot, device, size_bytes);
    to_device_->WhenDone([copied, started = std::move(started),
                          slot = std::move(slot)](absl::Status done) mutable {
      { const PinnedSlot released = std::move(slot); }
      started.Update(done);
      copied->Set(started);
    });
  });
  return copied;
}

absl::Status StagedCopies::EnqueueToDevice(const PinnedSlot& slot, char* device,
                                           size_t size_bytes) {
  RETURN_IF_ERROR(pool_.OrderBehindAllocations(to_device_->stream()));
  return to_device_->stream().CopyToDevice(device, slot.data(), size_bytes);
}

absl::Status StagedCopies::ToHost(const char* device, char* host,
                                  size_t size_bytes) {
  std::deque<Part> parts;
  absl::Status status;
  size_t offset = 0;
  const auto start = [&](PinnedSlot slot) {
    const size_t part_bytes =
        std::min(slots_to_host_->slot_bytes(), size_bytes - offset);
    auto copied = StartToHost(device + offset, slot.data(), part_bytes);
    parts.push_back({std::move(slot), offset, part_bytes, std::move(copied)});
    offset += part_bytes;
  };
  const auto finish = [&](const Part& part) {
    status.Update(part.copied->Wait());
    // The copy that page-locked memory costs.
    if (status.ok()) {
      std::memcpy(host + part.offset, part.slot.data(), part.size_bytes);
    }
  };
  while (offset < size_bytes && status.ok()) {
    if (parts.empty()) start(slots_to_host_->Acquire());
    while (offset < size_bytes && parts.size() < kMaxPartsToHost) {
      std::optional<PinnedSlot> slot = slots_to_host_->TryAcquire();
      if (!slot) break;
      start(*std::move(slot));
    }
    finish(parts.front());
    parts.pop_front();
  }
  for (const Part& part : parts) finish(part);
  return status;
}

std::shared_ptr<Completion> StagedCopies::StartToHost(const char* device,
                                                      char* slot,
                                                      size_t size_bytes) {
  auto copied = std::make_shared<Completion>();
  submission_.Submit([this, copied, device, slot, size_bytes] {
    absl::Status started = EnqueueToHost(device, slot, size_bytes);
    to_host_->WhenDone(
        [copied, started = std::move(started)](absl::Status done) mutable {
          started.Update(done);
          copied->Set(started);
        });
  });
  return copied;
}

absl::Status StagedCopies::EnqueueToHost(const char* device, char* slot,
                                         size_t size_bytes) {
  RETURN_IF_ERROR(pool_.OrderBehindAllocations(to_host_->stream()));
  return to_host_->stream().CopyToHost(slot, device, size_bytes);
}

}  // namespace tensorkv
