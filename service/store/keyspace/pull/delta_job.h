// Makes the delta between two values.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_JOB_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_JOB_H_

#include <memory>

#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/pull/delta_cache.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Makes the delta of that name, from one value as it is stored to another, and
// adds it to the cache: here if it `is_small`, else on the pool, where several
// threads share the blocks of a large value. The values are converted first, if
// the delta is of another dtype. REQUIRES: both are in host memory, and have
// the same dtype and shape, with elements.
void MakeDelta(std::shared_ptr<NamespaceState> state, const DeltaId& id,
               Tensor from, Tensor to, bool is_small);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_JOB_H_
