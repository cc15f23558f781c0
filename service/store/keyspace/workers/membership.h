// Does what follows when workers of a namespace are gone.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_MEMBERSHIP_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_MEMBERSHIP_H_

#include <cstdint>

#include "absl/types/span.h"
#include "service/store/keyspace/transaction.h"

namespace tensorkv {

// Closes rounds and barriers that wait for nobody any more, now that `ranks`
// are gone, ends the pulls that wait for these in vain, and looks at every
// other waiting call.
void OnWorkersGone(Transaction& transaction, absl::Span<const uint32_t> ranks);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_MEMBERSHIP_H_
