// What workers bring for one key.

#ifndef TENSORKV_SERVICE_STORE_CONTRIBUTION_H_
#define TENSORKV_SERVICE_STORE_CONTRIBUTION_H_

#include <cstdint>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "base/ref_counted.h"
#include "service/store/byte_budget.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace tensorkv {

// The elements of one pushed tensor. The key knows how many there are.
struct Slot {
  Slot() = default;
  explicit Slot(Tensor&& tensor)
      : dtype(tensor.dtype()),
        data(tensor.data()),
        buffer(tensor.TakeBuffer()) {}

  DType dtype = DType::kF32;
  const char* data = nullptr;
  // Keeps `data`.
  RefPtr<Buffer> buffer;
};

using Slots = absl::InlinedVector<Slot, 1>;

// What one worker brings to one update or round: nothing (it skips), or
// tensors that are summed in their order.
struct Contribution {
  Slots slots;
  // Of the tensors, and of what keeping them costs.
  Reservation held;
  Reservation overhead;
};

// What one contribution costs besides its tensors' bytes, at most.
inline constexpr uint64_t kContributionOverheadBytes = 512;

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_CONTRIBUTION_H_
