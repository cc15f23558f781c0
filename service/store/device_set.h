// The devices that a store keeps its tensors on.

#ifndef TENSORKV_SERVICE_STORE_DEVICE_SET_H_
#define TENSORKV_SERVICE_STORE_DEVICE_SET_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "kernels/backend.h"

namespace tensorkv {

// A device by its place in the set.
using DeviceIndex = uint8_t;

// What is to be copied, for each device.
using CopiesByDevice = std::vector<std::vector<MemoryCopy>>;

// Copies to devices that have not been started.
struct Uploads {
  CopiesByDevice copies;
  // Where they come from, until all are over.
  std::vector<RefPtr<Buffer>> kept;
};

// Bytes to copy from the memory of one device to that of another.
struct CopyBetweenDevices {
  DeviceIndex from_device = 0;
  DeviceIndex to_device = 0;
  MemoryCopy copy;
};

// Counts what devices do while no thread waits for it, and what is to follow.
// Thread-safe.
class WorkUnderWay {
 public:
  void Begin() {
    MutexLock lock(&mutex_);
    ++num_;
  }
  void End() {
    MutexLock lock(&mutex_);
    if (--num_ == 0) changed_.SignalAll();
  }
  void WaitForAll() {
    MutexLock lock(&mutex_);
    while (num_ > 0) changed_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  size_t num_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Backends, and work on several of them at once. Thread-safe.
class DeviceSet {
 public:
  static constexpr size_t kMaxDevices = 64;

  // REQUIRES: at least one, at most kMaxDevices; the host only by itself. They
  // outlive the set.
  explicit DeviceSet(std::vector<Backend*> devices);

  size_t size() const { return devices_.size(); }
  Backend& operator[](DeviceIndex index) const { return *devices_[index]; }
  bool is_host() const { return devices_[0]->is_host(); }

  // Host memory that tensors pass through on their way, best of all to and from
  // the first device. As Backend::AllocateStaging.
  absl::StatusOr<RefPtr<Buffer>> AllocateStaging(
      size_t size_bytes, RefPtr<MemoryAccount> account) const {
    return devices_[0]->AllocateStaging(size_bytes, std::move(account));
  }

  // As Backend::CopyToDevice and CopyToHost, with an error that some device
  // has, if any has one; all copies are over then.
  absl::Status CopyToDevices(const CopiesByDevice& copies) const;
  void CopyToHost(CopiesByDevice copies, PlanCallback done) const;

  // Copies between devices, and waits. A device that can read the memory of the
  // other does so; else the bytes pass through `room`, memory of the host.
  absl::Status CopyBetween(absl::Span<const CopyBetweenDevices> copies,
                           Buffer& room) const;

  // Starts copies to devices, which later plans see. An error means that some
  // could not be started: what is there is not known.
  absl::Status Upload(Uploads uploads) const;

  // Who has the devices do something and does not wait for it counts it here.
  // The store does not end before it.
  const std::shared_ptr<WorkUnderWay>& under_way() const { return under_way_; }

  // Calls `work` for each device of which `used` has the bit set, at the same
  // time: the first on this thread, others on threads of the set. Returns when
  // all have. Returns an error that one has returned, if any has.
  // REQUIRES: `work` does not call this.
  absl::Status ForEach(
      uint64_t used,
      absl::FunctionRef<absl::Status(DeviceIndex device)> work) const;

 private:
  // Those of `copies` to one device that it makes by itself, by an update.
  absl::Status CopyByReading(absl::Span<const CopyBetweenDevices> copies,
                             DeviceIndex device) const;
  absl::Status CopyThrough(Buffer& room, const CopyBetweenDevices& copy) const;
  bool ReadsFrom(const CopyBetweenDevices& copy) const {
    return devices_[copy.to_device]->CanRead(copy.copy.from,
                                             copy.copy.size_bytes);
  }

  // For each device, so that calls which wait for it can be joined there.
  static constexpr size_t kThreadsPerDevice = 4;

  const std::vector<Backend*> devices_;
  const std::shared_ptr<WorkUnderWay> under_way_ =
      std::make_shared<WorkUnderWay>();
  // kThreadsPerDevice for each; none for one device.
  std::vector<std::unique_ptr<Executor>> threads_;
  mutable std::atomic<uint64_t> num_submitted_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_DEVICE_SET_H_
