#include "service/store/device_set.h"

#include <algorithm>
#include <utility>

#include "absl/numeric/bits.h"
#include "base/answer.h"
#include "base/status_macros.h"
#include "kernels/last_of_many.h"

namespace tensorkv {
namespace {

uint64_t UsedBy(const CopiesByDevice& copies) {
  uint64_t used = 0;
  for (size_t i = 0; i < copies.size(); ++i) {
    if (!copies[i].empty()) used |= uint64_t{1} << i;
  }
  return used;
}

// Takes the lowest bit off `used`.
DeviceIndex TakeFirst(uint64_t& used) {
  const int first = absl::countr_zero(used);
  used &= used - 1;
  return static_cast<DeviceIndex>(first);
}

}  // namespace

DeviceSet::DeviceSet(std::vector<Backend*> devices)
    : devices_(std::move(devices)) {
  if (devices_.size() == 1) return;
  for (size_t i = 0; i < devices_.size() * kThreadsPerDevice; ++i) {
    threads_.push_back(std::make_unique<Executor>());
  }
}

absl::Status DeviceSet::CopyToDevices(const CopiesByDevice& copies) const {
  return ForEach(UsedBy(copies), [&](DeviceIndex device) {
    return devices_[device]->CopyToDevice(copies[device]);
  });
}

void DeviceSet::CopyToHost(CopiesByDevice copies, PlanCallback done) const {
  uint64_t used = UsedBy(copies);
  if (used == 0) return std::move(done)(absl::OkStatus());
  const auto last =
      std::make_shared<LastOfMany>(absl::popcount(used), std::move(done));
  while (used != 0) {
    const DeviceIndex device = TakeFirst(used);
    devices_[device]->CopyToHost(
        std::move(copies[device]),
        [last](const absl::Status& status) { last->End(status); });
  }
}

absl::Status DeviceSet::CopyBetween(absl::Span<const CopyBetweenDevices> copies,
                                    Buffer& room) const {
  uint64_t reading = 0;
  for (const CopyBetweenDevices& copy : copies) {
    if (ReadsFrom(copy)) reading |= uint64_t{1} << copy.to_device;
  }
  RETURN_IF_ERROR(ForEach(reading, [&](DeviceIndex device) {
    return CopyByReading(copies, device);
  }));
  for (const CopyBetweenDevices& copy : copies) {
    if (!ReadsFrom(copy)) RETURN_IF_ERROR(CopyThrough(room, copy));
  }
  return absl::OkStatus();
}

absl::Status DeviceSet::CopyByReading(
    absl::Span<const CopyBetweenDevices> copies, DeviceIndex device) const {
  static const UpdateRule* const kAssign = new UpdateRule();
  std::vector<TensorView> from;
  from.reserve(copies.size());  // the updates refer to the elements
  std::vector<TensorUpdate> updates;
  for (const CopyBetweenDevices& copy : copies) {
    if (copy.to_device != device || !ReadsFrom(copy)) continue;
    const auto bytes = static_cast<int64_t>(copy.copy.size_bytes);
    from.push_back({DType::kU8, bytes, copy.copy.from});
    updates.push_back({.rule = kAssign,
                       .contributions = {&from.back(), 1},
                       .value = {DType::kU8, bytes, copy.copy.to}});
  }
  return devices_[device]->Apply(updates);
}

absl::Status DeviceSet::CopyThrough(Buffer& room,
                                    const CopyBetweenDevices& whole) const {
  MemoryCopy left = whole.copy;
  while (left.size_bytes > 0) {
    const size_t bytes = std::min<size_t>(left.size_bytes, room.size_bytes());
    RETURN_IF_ERROR(devices_[whole.from_device]->Run(
        {.downloads = {{left.from, room.mutable_data(), bytes}}}));
    const MemoryCopy up = {room.data(), left.to, bytes};
    RETURN_IF_ERROR(devices_[whole.to_device]->CopyToDevice({&up, 1}));
    left.from += bytes;
    left.to += bytes;
    left.size_bytes -= bytes;
  }
  return absl::OkStatus();
}

absl::Status DeviceSet::Upload(Uploads uploads) const {
  CopiesByDevice& copies = uploads.copies;
  // The callback owns them, and goes when it has been called.
  const auto last = std::make_shared<LastOfMany>(
      1, [kept = std::move(uploads.kept)](const absl::Status&) {});
  absl::Status started;
  for (size_t i = 0; i < copies.size() && started.ok(); ++i) {
    if (copies[i].empty()) continue;
    last->Add();
    started = devices_[i]->Submit(
        {.uploads = std::move(copies[i])},
        [last](const absl::Status& status) { last->End(status); });
  }
  last->End(absl::OkStatus());
  return started;
}

absl::Status DeviceSet::ForEach(
    uint64_t used,
    absl::FunctionRef<absl::Status(DeviceIndex device)> work) const {
  if (used == 0) return absl::OkStatus();
  const DeviceIndex first = TakeFirst(used);
  if (used == 0) return work(first);
  const Answer<absl::Status> outcome;
  const auto last = std::make_shared<LastOfMany>(
      absl::popcount(used) + 1,
      [outcome](absl::Status status) { outcome.Set(std::move(status)); });
  while (used != 0) {
    const DeviceIndex device = TakeFirst(used);
    const uint64_t turn = num_submitted_.fetch_add(1) % kThreadsPerDevice;
    threads_[device * kThreadsPerDevice + turn]->Submit(
        [last, work, device] { last->End(work(device)); });
  }
  last->End(work(first));
  return outcome.Wait();
}

}  // namespace tensorkv
