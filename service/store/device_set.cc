#include "service/store/device_set.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/numeric/bits.h"
#include "base/answer.h"
#include "base/mutex.h"

namespace tensorkv {
namespace {

// Calls back when so many pieces of work have ended.
class LastOfMany {
 public:
  LastOfMany(size_t num_left, CopiedCallback done)
      : num_left_(num_left), done_(std::move(done)) {}

  void End(const absl::Status& status) {
    {
      MutexLock lock(&mutex_);
      status_.Update(status);
      if (--num_left_ > 0) return;
    }
    std::move(done_)(std::move(status_));  // nobody else is left
  }

 private:
  Mutex mutex_;
  size_t num_left_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_;
  CopiedCallback done_;
};

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

void DeviceSet::CopyToHost(CopiesByDevice copies, CopiedCallback done) const {
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
