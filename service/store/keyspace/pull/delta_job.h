// Encodes the delta between two values, step by step.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_JOB_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_JOB_H_

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "service/store/byte_budget.h"
#include "service/store/keyspace/pull/delta_cache.h"
#include "tensor/delta/delta_scratch.h"
#include "tensor/tensor.h"

namespace tensorkv {

// What a thread uses for one step after another. Not thread-safe.
struct DeltaJobScratch {
  DeltaScratch blocks;
  // Hold what is converted.
  std::string from;
  std::string to;
};

// One delta from the first step to the last. Its values are converted as they
// are compared, if the delta is of another dtype. Not thread-safe.
class DeltaJob {
 public:
  // Bounds the bytes of the value that a step encodes: in some ms.
  static constexpr size_t kStepBytes = 4 * kDeltaBlockBytes;

  // REQUIRES: both are in the memory of `host`, which is the host, and have the
  // same dtype and shape, with elements.
  DeltaJob(DeltaId id, Tensor from, Tensor to, Backend* host);

  const DeltaId& id() const { return id_; }
  // Returns how many bytes the value has, as it is converted.
  size_t value_bytes() const { return to_.num_elements() * SizeOf(id_.dtype); }
  bool has_ended() const { return next_ == value_bytes(); }
  // Encodes some more, whose memory `cache` gives. Errors: ResourceExhausted,
  // and those of the conversion. REQUIRES: it has not ended.
  absl::Status Step(DeltaCache& cache, DeltaJobScratch& scratch);
  // Returns the delta; null where it is no smaller than the value. Errors:
  // ResourceExhausted. REQUIRES: it has ended.
  absl::StatusOr<CachedDeltaPtr> Finish(DeltaCache& cache);

 private:
  // Returns elements of the value, converted in `memory` if need be.
  absl::StatusOr<TensorView> Convert(const Tensor& value, size_t begin,
                                     size_t bytes, std::string& memory) const;

  const DeltaId id_;
  Tensor from_;
  Tensor to_;
  Backend& host_;
  // How many bytes are encoded, in how many.
  size_t next_ = 0;
  size_t encoded_bytes_ = 0;
  std::vector<std::string> pieces_;
  Reservation pieces_bytes_;
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_JOB_H_
