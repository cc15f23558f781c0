// The check that every backend makes before it runs a batch.

#ifndef TENSORKV_KERNELS_UPDATE_CHECK_H_
#define TENSORKV_KERNELS_UPDATE_CHECK_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/backend.h"

namespace tensorkv {

// Checks that the updates keep the contract of TensorUpdate, as far as their
// views and packings show it. Reads no element.
// Errors: InvalidArgument, naming the update by its index in the batch.
absl::Status CheckBatch(absl::Span<const TensorUpdate> batch);

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_UPDATE_CHECK_H_
