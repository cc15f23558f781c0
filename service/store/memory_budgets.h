// Budgets of the memories that a server has: the host's, and its GPU's.

#ifndef TENSORKV_SERVICE_STORE_MEMORY_BUDGETS_H_
#define TENSORKV_SERVICE_STORE_MEMORY_BUDGETS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ref_counted.h"
#include "kernels/backend.h"
#include "service/store/byte_budget.h"
#include "service/store/change_memory.h"
#include "service/store/namespace_summary.h"

namespace tensorkv {

// The bytes that a call needs of each memory. Without a GPU both are bytes of
// the host.
struct BytesNeeded {
  uint64_t host = 0;
  uint64_t device = 0;
};

// Says how much of a GPU's memory tensors may take, and take now.
struct DeviceBudget {
  std::string device;
  uint64_t budget_bytes = 0;
  uint64_t used_bytes = 0;
};

// The budgets that bound all namespaces together. Immutable, thread-safe.
//
// What snapshots alone need is not in them, so that it takes no headroom of
// calls. It may take what the budgets leave free and, on the host,
// `max_retained_bytes` besides. What both leave of that, deltas may take, which
// nobody needs: they are in neither.
class ServerBudgets {
 public:
  // `device_bytes` is the budget of the device, unless that is the host.
  ServerBudgets(uint64_t host_bytes, uint64_t device_bytes,
                const Backend& device, uint64_t max_retained_bytes = 0,
                uint64_t max_delta_bytes = 0);

  const RefPtr<ByteBudget>& host() const { return host_; }
  // Returns the budget of the memory that tensors are kept in: the host's,
  // without a GPU.
  const RefPtr<ByteBudget>& device() const { return device_; }
  // Count what snapshots alone need in each memory. They refuse nothing:
  // CheckRetained does, which is asked before or after.
  const RefPtr<ByteBudget>& retained_on_host() const {
    return retained_on_host_;
  }
  const RefPtr<ByteBudget>& retained_on_device() const {
    return retained_on_device_;
  }
  // Bounds what is remembered for watches, beside the budgets. Logs of
  // changes may outlive the store.
  const std::shared_ptr<ChangeMemory>& changes() const { return changes_; }
  // Checks that snapshots need no more than they may have, with `more` bytes
  // and without `freed`, which are in use for a moment yet. Errors:
  // ResourceExhausted.
  absl::Status CheckRetained(const BytesNeeded& more = {},
                             const BytesNeeded& freed = {}) const;
  // Counts what has to do with deltas, and refuses what is above the limit that
  // it was given last.
  const RefPtr<ByteBudget>& deltas() const { return deltas_; }
  // Returns how many bytes deltas may take now: as many as the budget of the
  // host and snapshots leave, but no more than `max_delta_bytes`.
  uint64_t RoomForDeltas() const;
  const std::string& device_name() const { return device_name_; }
  bool has_gpu() const { return device_.get() != host_.get(); }
  // Returns the limit of the host's budget or of the device's, whichever is
  // higher.
  uint64_t largest_bytes() const;
  // Returns the limit of a namespace that asks for so many bytes; 0 asks for as
  // many as the server has. Errors: InvalidArgument (too few) ·
  // ResourceExhausted (more than the server's).
  absl::StatusOr<uint64_t> BudgetOf(absl::string_view name_space,
                                    uint64_t bytes) const;
  // Returns the budget of the GPU and its use; empty without a GPU.
  std::vector<DeviceBudget> DeviceBudgets() const;

 private:
  const std::string device_name_;
  const RefPtr<ByteBudget> host_;
  const RefPtr<ByteBudget> device_;
  const uint64_t max_retained_bytes_;
  const RefPtr<ByteBudget> retained_on_host_;
  const RefPtr<ByteBudget> retained_on_device_;
  const uint64_t max_delta_bytes_;
  const RefPtr<ByteBudget> deltas_;
  const std::shared_ptr<ChangeMemory> changes_;
};

// MemoryAccounts count what one namespace uses of one memory.
struct MemoryAccounts {
  MemoryAccounts(const RefPtr<ByteBudget>& budget,
                 const RefPtr<ByteBudget>& of_snapshots)
      : values(MakeRefCounted<BudgetAccount>(budget)),
        state(MakeRefCounted<BudgetAccount>(budget)),
        contributions(MakeRefCounted<BudgetAccount>(budget)),
        retained(MakeRefCounted<BudgetAccount>(of_snapshots)) {}

  RefPtr<BudgetAccount> values;
  RefPtr<BudgetAccount> state;
  RefPtr<BudgetAccount> contributions;
  // What snapshots alone need.
  RefPtr<BudgetAccount> retained;
};

// NamespaceMemory counts what a namespace takes of each memory, and bounds it:
// `limit` of the host's and, where there is a GPU, `limit` of the GPU's.
// Thread-safe.
class NamespaceMemory {
 public:
  // `subject` names the namespace in errors. The server's budgets outlive this.
  NamespaceMemory(const std::string& subject, uint64_t limit_bytes,
                  const ServerBudgets* server);

  // Returns the accounts of tensors in the host's memory: those that arrive or
  // leave and, without a GPU, all others.
  const MemoryAccounts& host() const { return host_; }
  // Returns the accounts of the tensors that are kept on the device.
  const MemoryAccounts& device() const { return device_; }
  // Returns the account of keys, answers to calls and all else that is no
  // tensor.
  const RefPtr<BudgetAccount>& metadata() const { return metadata_; }

  // Checks that so many bytes could be reserved now. Errors: ResourceExhausted.
  absl::Status CheckHeadroom(const BytesNeeded& bytes) const;
  // Does what ServerBudgets::CheckRetained does.
  absl::Status CheckRetained(const BytesNeeded& more = {},
                             const BytesNeeded& freed = {}) const {
    return server_.CheckRetained(more, freed);
  }

  // Changes the limit of each memory, as ByteBudget::SetLimit says.
  void SetLimit(uint64_t bytes);

  // Returns how many bytes are used in both memories together.
  MemoryUse used() const;
  // Returns how many bytes are used in the GPU's memory; empty without a GPU.
  std::vector<DeviceMemoryUse> used_on_device() const;

 private:
  const ServerBudgets& server_;
  const RefPtr<ByteBudget> host_budget_;
  const RefPtr<ByteBudget> device_budget_;
  // Without a GPU both are the same accounts.
  const MemoryAccounts host_;
  const MemoryAccounts device_;
  const RefPtr<BudgetAccount> metadata_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_MEMORY_BUDGETS_H_
