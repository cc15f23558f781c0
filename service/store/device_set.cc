#include "service/store/device_set.h"

#include <algorithm>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace tensorkv {
namespace {

// Calls back when so many copies have ended.
class LastOfCopies {
 public:
  LastOfCopies(size_t num_copies, CopiedCallback done)
      : num_left_(num_copies), done_(std::move(done)) {}

  void End(const absl::Status& status) {
    {
      MutexLock lock(&mutex_);
      status_.Update(status);
      if (--num_left_ > 0) return;
    }
    std::move(done_)(status_);  // nobody else is left
  }

 private:
  Mutex mutex_;
  size_t num_left_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_;
  CopiedCallback done_;
};

}  // namespace

absl::Status DeviceSet::CopyToDevices(const CopiesByDevice& copies) const {
  absl::Status status;
  for (size_t i = 0; i < copies.size(); ++i) {
    if (!copies[i].empty()) status.Update(devices_[i]->CopyToDevice(copies[i]));
  }
  return status;
}

void DeviceSet::CopyToHost(CopiesByDevice copies, CopiedCallback done) const {
  const size_t num_used =
      copies.size() -
      std::count_if(copies.begin(), copies.end(),
                    [](const auto& each) { return each.empty(); });
  if (num_used == 0) return std::move(done)(absl::OkStatus());
  const auto last = std::make_shared<LastOfCopies>(num_used, std::move(done));
  for (size_t i = 0; i < copies.size(); ++i) {
    if (copies[i].empty()) continue;
    devices_[i]->CopyToHost(
        std::move(copies[i]),
        [last](const absl::Status& status) { last->End(status); });
  }
}

void DeviceSet::ForEach(
    uint64_t used, absl::FunctionRef<void(DeviceIndex device)> work) const {
  std::vector<DeviceIndex> devices;
  for (size_t i = 0; i < devices_.size(); ++i) {
    if ((used >> i & 1) != 0) devices.push_back(static_cast<DeviceIndex>(i));
  }
  if (devices.empty()) return;
  std::vector<std::thread> threads;
  for (size_t i = 1; i < devices.size(); ++i) {
    threads.emplace_back([&work, device = devices[i]] { work(device); });
  }
  work(devices[0]);
  for (std::thread& thread : threads) thread.join();
}

Placement::Placement(const DeviceSet& devices) {
  for (size_t i = 0; i < devices.size(); ++i) {
    free_bytes_.push_back(devices[static_cast<DeviceIndex>(i)].free_bytes());
  }
}

DeviceIndex Placement::Place(uint64_t size_bytes) {
  const auto most = std::max_element(free_bytes_.begin(), free_bytes_.end());
  *most -= std::min(*most, size_bytes);
  return static_cast<DeviceIndex>(most - free_bytes_.begin());
}

}  // namespace tensorkv
