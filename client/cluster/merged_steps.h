// Makes records of steps from those of the servers of a cluster.
//
// Pure functions, thread-safe.

#ifndef TENSORKV_CLIENT_CLUSTER_MERGED_STEPS_H_
#define TENSORKV_CLIENT_CLUSTER_MERGED_STEPS_H_

#include <cstdint>
#include <vector>

#include "contract/requests.h"

namespace tensorkv {

// Returns one page from the pages that several servers have given to the same
// request, with one record of each step, as step.proto says. It has no gap
// before what follows on the next page of any server, and at most as many steps
// as a server's page would have.
DescribeStepsReply MergeSteps(std::vector<DescribeStepsReply> pages,
                              uint32_t page_size, bool is_mirrored);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_MERGED_STEPS_H_
