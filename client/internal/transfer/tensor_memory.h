// Allocates memory for the tensors of a reply, and for copies of those of a
// push.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_TENSOR_MEMORY_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_TENSOR_MEMORY_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/destination.h"
#include "contract/requests.h"
#include "tensor/buffer_pool.h"

namespace tensorkv {

// Tensors up to this size share buffers, since an allocation of its own would
// cost each more than its bytes.
inline constexpr size_t kMaxSharingTensorBytes = 4096;
// The size of a shared buffer: so much memory does one small tensor keep, at
// most, when all others are gone.
inline constexpr size_t kSharedBufferBytes = 64 << 10;

// Gives the tensors of `values`, which have none, the memory of `destinations`
// if all fit, else uninitialised memory from `pool`: 64-byte aligned, of their
// own or, for small ones, within a shared buffer.
// Errors: ResourceExhausted.
absl::Status AllocateTensors(absl::Span<Value> values, BufferPool& pool,
                             absl::Span<const Destination> destinations = {});

// Replaces the tensors of the entries, but for encoded ones, by copies in
// memory from `pool`, aligned and shared as in AllocateTensors. Errors:
// ResourceExhausted.
absl::Status CopyTensors(std::vector<PushEntry>& entries, BufferPool& pool);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_TENSOR_MEMORY_H_
