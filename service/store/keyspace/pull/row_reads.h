// Reads the rows of a pull, each between the updates of its key.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_ROW_READS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_ROW_READS_H_

#include <vector>

#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "contract/data_requests.h"
#include "contract/row_ids.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/stored_key.h"

namespace tensorkv {

// Reads `rows` of `keys` after the updates that are queued now, and calls
// `done` with the rows and their versions: now, or on the thread that has read
// the last. `reply` has the values without elements, all by entry. Errors:
// ResourceExhausted (OVER_BUDGET), and those of the device. REQUIRES: the mutex
// of `state` is free.
void SendRows(NamespaceState& state, absl::Span<const KeyPtr> keys,
              std::vector<RefPtr<const RowIds>> rows, PullReply reply,
              ReplyCallback<PullReply> done);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_ROW_READS_H_
