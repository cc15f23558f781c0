// Budgets of the memories that a server has: the host's, and each GPU's.

#ifndef TENSORKV_SERVICE_STORE_MEMORY_BUDGETS_H_
#define TENSORKV_SERVICE_STORE_MEMORY_BUDGETS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "contract/requests.h"
#include "service/store/byte_budget.h"
#include "service/store/device_set.h"

namespace tensorkv {

using BytesByDevice = absl::InlinedVector<uint64_t, 1>;

// What a call needs of each memory. Where tensors are kept on the host, both
// are of its memory.
struct BytesNeeded {
  uint64_t host = 0;
  BytesByDevice devices;
};

// The budgets that bound all namespaces together. Immutable, thread-safe.
class ServerBudgets {
 public:
  // `gpu_bytes` has the budget of each of `devices`, unless these are the host.
  ServerBudgets(uint64_t host_bytes, absl::Span<const uint64_t> gpu_bytes,
                const DeviceSet& devices);

  const RefPtr<ByteBudget>& host() const { return host_; }
  // One budget for each device; where tensors are kept on the host, its alone.
  absl::Span<const RefPtr<ByteBudget>> devices() const { return devices_; }
  const std::string& device_name(size_t i) const { return names_[i]; }
  bool has_gpus() const { return devices_[0].get() != host_.get(); }
  // The host's, or that of all GPUs together, whichever is more.
  uint64_t largest_bytes() const;
  // What each device has, unless that is the host.
  std::vector<DeviceBudget> DeviceBudgets() const;
  // What of each device's is free.
  std::vector<uint64_t> FreeBytes() const;

 private:
  const RefPtr<ByteBudget> host_;
  std::vector<RefPtr<ByteBudget>> devices_;
  std::vector<std::string> names_;
};

// What one memory is used for by one namespace.
struct MemoryAccounts {
  explicit MemoryAccounts(const RefPtr<ByteBudget>& budget)
      : values(MakeRefCounted<BudgetAccount>(budget)),
        state(MakeRefCounted<BudgetAccount>(budget)),
        contributions(MakeRefCounted<BudgetAccount>(budget)) {}

  RefPtr<BudgetAccount> values;
  RefPtr<BudgetAccount> state;
  RefPtr<BudgetAccount> contributions;
};

// Reservations of memory on several devices. Move-only; not thread-safe.
class DeviceReservations {
 public:
  // Moves `bytes` of one device into a reservation of their own.
  // REQUIRES: they are there.
  Reservation Split(DeviceIndex device, uint64_t bytes) {
    return by_device_[device].Split(bytes);
  }
  Reservation TakeAll(DeviceIndex device) {
    return std::exchange(by_device_[device], {});
  }
  // Adds to those of one device, or of all. REQUIRES: as Reservation::Merge.
  void Merge(DeviceIndex device, Reservation other);
  void Merge(DeviceReservations other);

 private:
  absl::InlinedVector<Reservation, 1> by_device_;
};

// What a namespace takes of each memory, and how much it may take: `limit` of
// the host's and, where there are GPUs, `limit` of theirs together.
// Thread-safe.
class NamespaceMemory {
 public:
  // `subject` names the namespace in errors. The server's budgets outlive this.
  NamespaceMemory(const std::string& subject, uint64_t limit_bytes,
                  const ServerBudgets* server);

  // The host's: tensors that arrive or leave and, without GPUs, all others.
  const MemoryAccounts& host() const { return host_; }
  // What counts the tensors that are kept on a device.
  const MemoryAccounts& on(DeviceIndex device) const {
    return gpus_.empty() ? host_ : gpus_[device];
  }
  // Keys, answers to calls and all else that is no tensor.
  const RefPtr<BudgetAccount>& metadata() const { return metadata_; }

  // Zero of each device.
  BytesByDevice NoBytes() const {
    return BytesByDevice(server_.devices().size());
  }
  // Errors: ResourceExhausted, as ByteBudget::CheckRoom.
  absl::Status CheckRoom(const BytesNeeded& bytes) const;
  // Reserves for that use of each device. Errors: ResourceExhausted; then
  // nothing is reserved.
  absl::StatusOr<DeviceReservations> Reserve(
      RefPtr<BudgetAccount> MemoryAccounts::*use,
      const BytesByDevice& bytes) const;

  // What all memories together hold.
  MemoryUse used() const;
  // What each device holds, unless that is the host.
  std::vector<DeviceMemoryUse> used_on_gpus() const;

 private:
  const ServerBudgets& server_;
  const RefPtr<ByteBudget> host_budget_;
  // What all GPUs may hold together; each budget of theirs is a part of it and
  // of the server's.
  const RefPtr<ByteBudget> gpus_budget_;
  std::vector<RefPtr<ByteBudget>> gpu_budgets_;
  const MemoryAccounts host_;
  // The accounts of the GPUs; empty where there are none.
  std::vector<MemoryAccounts> gpus_;
  const RefPtr<BudgetAccount> metadata_;
};

// Chooses the devices of new keys: always that of whose budget most is free,
// less what this has placed there before. Does not see what others place at
// the same time. Not thread-safe.
class Placement {
 public:
  explicit Placement(const ServerBudgets& budgets)
      : free_bytes_(budgets.FreeBytes()) {}

  DeviceIndex Place(uint64_t size_bytes);

 private:
  std::vector<uint64_t> free_bytes_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_MEMORY_BUDGETS_H_
