// Pushes and pulls of every size, beside every reference.

#ifndef TENSORKV_BENCH_DATA_PATH_SUITES_CALLS_SUITE_H_
#define TENSORKV_BENCH_DATA_PATH_SUITES_CALLS_SUITE_H_

#include <vector>

#include "bench/data_path/peers/servers.h"
#include "bench/data_path/peers/workload.h"
#include "bench/data_path/suites/peer_set.h"
#include "bench/data_path/suites/plan.h"
#include "bench/data_path/suites/row_runner.h"
#include "bench/harness/section.h"

namespace tensorkv::bench {

// Calls of one tensor.
std::vector<Workload> TensorWorkloads(const Plan& plan, Transport transport);

// Calls of one tensor, over TCP, that a quick run makes at its end, if there
// is time: the largest, without naive gRPC, which takes too long.
std::vector<Workload> LastWorkloads(const Plan& plan);

// Calls of many keys.
std::vector<Workload> BatchWorkloads(const Plan& plan);

// "tcp/push/64MiB".
std::string RowName(Transport transport, const Workload& workload);

// A row per workload.
Section MeasureCalls(std::string title, Unit unit,
                     const std::vector<Workload>& workloads,
                     const PeerSet& peers, ConnectionCounter* counter,
                     RowRunner* runner);

// Ours beside ours: a large tensor and a small one, many small tensors and
// their bytes in one.
Section MeasureOursBesideOurs(const PeerSet& peers, ConnectionCounter* counter,
                              RowRunner* runner);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_SUITES_CALLS_SUITE_H_
