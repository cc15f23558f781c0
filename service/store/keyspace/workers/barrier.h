// Ends barriers whose workers have come, or are gone.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_BARRIER_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_BARRIER_H_

#include "absl/status/status.h"
#include "service/store/keyspace/transaction.h"

namespace tensorkv {

// Ends the barriers at which nobody is missing any more.
void EndBarriers(Transaction& transaction);

// Ends all barriers with `status`.
void FailBarriers(Transaction& transaction, const absl::Status& status);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_BARRIER_H_
