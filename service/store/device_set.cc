#include "service/store/device_set.h"

#include <utility>

#include "absl/numeric/bits.h"
#include "base/answer.h"
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

absl::Status DeviceSet::Upload(CopiesByDevice copies,
                               std::vector<RefPtr<Buffer>> kept) const {
  // The callback owns them, and goes when it has been called.
  const auto last = std::make_shared<LastOfMany>(
      1, [kept = std::move(kept)](const absl::Status&) {});
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
