// Where a namespace keeps its tensors: on the host, or on another device.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_TENSOR_PLACEMENT_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_TENSOR_PLACEMENT_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "contract/data_requests.h"
#include "kernels/backend.h"
#include "service/store/byte_budget.h"
#include "service/store/keyspace/push/staged_tensors.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/memory_budgets.h"
#include "service/store/tensor_store.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Where a namespace keeps tensors, on the host or on a device, and how they get
// there and back. Thread-safe; called without the mutex, but for copies().
class TensorPlacement {
 public:
  // Both outlive it.
  static std::unique_ptr<TensorPlacement> Create(Backend* device,
                                                 const NamespaceMemory* memory);
  virtual ~TensorPlacement() = default;

  // Returns whether tensors are copied when they come and when they go.
  virtual bool copies() const = 0;

  // Returns whether a new key can keep the tensor's memory as its value, be it
  // that staging has yet to give it.
  virtual bool CanKeep(const Tensor& tensor) const = 0;

  // Returns how the tensors of a call share buffers.
  virtual const BufferSharing& sharing() const = 0;

  // Gives each of the tensors of a call uninitialised host memory, which
  // `account` counts. Errors: as AllocateStaged.
  virtual absl::Status Stage(const RefPtr<BudgetAccount>& account,
                             absl::Span<Tensor* const> tensors) const = 0;

  // Gives new keys the elements of their entries: of those entries for which
  // there is a key. REQUIRES: the keys have the memory of their values.
  virtual absl::Status Fill(const InitRequest& request,
                            absl::Span<const RefPtr<StoredKey>> keys) const = 0;

  // Calls `done` with `reply`, whose values are where tensors are kept, once
  // they are on the host: now, or on a thread of the device, when this object
  // may be gone.
  virtual void Send(PullReply reply, ReplyCallback<PullReply> done) const = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_TENSOR_PLACEMENT_H_
