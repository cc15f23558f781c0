// Memory for the tensors of a call whose elements are yet to arrive.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_STAGED_TENSORS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_STAGED_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "service/store/byte_budget.h"
#include "service/store/counted_buffer.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace tensorkv {

// BufferSharing says which tensors of a call share buffers.
struct BufferSharing {
  // Tensors of that size and more have a buffer of their own, which a key can
  // take over as its value.
  uint64_t own_bytes = 0;
  // Buffers that smaller tensors share are at most as large: one contribution
  // that waits keeps no more than this of its neighbours.
  uint64_t max_shared_bytes = 0;
};

// A buffer costs two allocations; copying 4 KiB once more takes longer.
inline constexpr uint64_t kOwnBufferBytes = 4 * 1024;
inline constexpr uint64_t kMaxSharedBufferBytes = 256 * 1024;
inline constexpr BufferSharing kSharingOnHost = {kOwnBufferBytes,
                                                 kMaxSharedBufferBytes};

// Where tensors are copied to a device, a buffer is a transfer, and there an
// allocation: each takes as long as moving some hundred KiB.
inline constexpr BufferSharing kSharingOnDevice = {256 * 1024, 32 << 20};

// StagingLayout says which buffer each tensor of a call goes to, and where in
// it. Not thread-safe.
class StagingLayout {
 public:
  struct Position {
    size_t buffer = 0;
    uint64_t offset = 0;
  };

  explicit StagingLayout(const BufferSharing& sharing = kSharingOnHost)
      : sharing_(sharing) {}

  // Adds the next tensor of the call, and returns where it goes.
  Position Add(uint64_t size_bytes);

  absl::Span<const uint64_t> buffer_bytes() const { return buffer_bytes_; }
  // Returns the sum over all buffers; UINT64_MAX if it is more than that.
  uint64_t total_bytes() const { return total_bytes_; }

 private:
  Position AddBuffer(uint64_t size_bytes);

  const BufferSharing sharing_;
  std::vector<uint64_t> buffer_bytes_;
  uint64_t total_bytes_ = 0;
  // The buffer that takes small tensors now.
  bool has_shared_ = false;
  size_t shared_ = 0;
};

// Returns the bytes of the buffers that those tensors of a request's entries
// get which have no memory yet.
template <typename Request>
uint64_t BytesToStage(const BufferSharing& sharing, const Request& request) {
  StagingLayout layout(sharing);
  for (const auto& entry : request.entries) {
    if constexpr (requires { entry.skip; }) {
      if (entry.skip) continue;
    }
    if (!entry.tensor.has_data()) layout.Add(entry.tensor.size_bytes());
  }
  return layout.total_bytes();
}

// Gives each of the tensors uninitialised host memory, which `account` counts.
// Errors: ResourceExhausted; then no tensor has changed.
absl::Status AllocateStaged(const RefPtr<BudgetAccount>& account,
                            absl::Span<Tensor* const> tensors);
absl::Status AllocateStaged(const RefPtr<BudgetAccount>& account,
                            absl::Span<Tensor* const> tensors,
                            const BufferSharing& sharing,
                            AllocateBuffer allocate);

// Does what AllocateStaged does with bytes that are reserved: the total_bytes
// of the tensors' layout.
absl::Status AllocateStagedReserved(Reservation reservation,
                                    absl::Span<Tensor* const> tensors,
                                    const BufferSharing& sharing,
                                    AllocateBuffer allocate);

// Returns whether `account` counts the tensor's memory already.
inline bool IsCountedBy(const BudgetAccount& account, const Tensor& tensor) {
  return tensor.has_data() && tensor.buffer()->account() == &account;
}

// Returns whether `buffer` can be kept as a key's value of `size_bytes`, and is
// worth it: the elements take all of it, nobody else uses it, `account` counts
// it. It may be null.
bool CanBecomeValue(const BudgetAccount& account, const Buffer* buffer,
                    uint64_t size_bytes);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_STAGED_TENSORS_H_
