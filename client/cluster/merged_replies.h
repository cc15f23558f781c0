// One reply, or one error, from those of the servers of a cluster.
//
// Pure functions, thread-safe.

#ifndef TENSORKV_CLIENT_CLUSTER_MERGED_REPLIES_H_
#define TENSORKV_CLIENT_CLUSTER_MERGED_REPLIES_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "contract/requests.h"

namespace tensorkv {

// Returns the error that says best what to do about the call. It is of the
// first of the kinds below of which there is any, and of these the first in the
// order given. Returns OK if all are OK.
//
//  1. The state is gone (SERVER_RESTARTED).
//  2. The worker has to join again (NOT_MEMBER, LEASE_LOST).
//  3. The step has to be pushed again (ROUND_FAILED, STRIPE_FAILED).
//  4. The call waits for a worker that has left (WORKER_LEFT), for which its
//     other shares were given up.
//  5. Everything else, which is final, above all requests that are wrong.
//  6. The call may have been made (OUTCOME_UNKNOWN), or is to be made again
//     (WORKER_LOST, Unavailable, DeadlineExceeded).
//  7. The step has closed without the caller (STEP_CLOSED): other slices of the
//     key may be open.
//
// So a worker repairs first what would make its next attempt fail anyway, an
// error that is final shows as soon as nothing has to be repaired before, and
// nobody waits for a server in order to be told what is wrong with his request.
absl::Status MostActionableError(absl::Span<const absl::Status> statuses);

// Returns the step that a worker pushes next, from what two servers say. One
// that says 1 may have had none of the worker's keys so far, and does not count
// beside another. Elsewhere it is the lower one: whoever has it already knows
// it again. In MODE_ASYNC, where nobody would, it is the higher one.
Step NextStepOf(Mode mode, Step a, Step b);

// Returns one page from the pages that several servers have given to the same
// request: in order, of at most `page_size` (0: whatever there is), and with no
// gap before what follows on the next page of any server. Its token is a name
// up to which it has all, as on a server. Of keys of one name the first page's
// counts.
ListReply MergePages(std::vector<ListReply> pages, uint32_t page_size);
// Returns one page of namespaces, as the function above does of keys.
// Namespaces of one name are added up, with the configuration of the first page
// that has the name.
ListNamespacesReply MergePages(std::vector<ListNamespacesReply> pages,
                               uint32_t page_size);

// Returns one page of the checkpoints that all servers have, as the first knows
// them, added up, from the pages that these have given to the same request: as
// far as MergePages goes.
ListCheckpointsReply CommonCheckpoints(std::vector<ListCheckpointsReply> pages,
                                       uint32_t page_size);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_MERGED_REPLIES_H_
