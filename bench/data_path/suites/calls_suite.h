// Pushes and pulls of every size, beside every reference.

#ifndef TENSORKV_BENCH_DATA_PATH_SUITES_CALLS_SUITE_H_
#define TENSORKV_BENCH_DATA_PATH_SUITES_CALLS_SUITE_H_

#include "bench/data_path/suites/peer_set.h"
#include "bench/harness/row_runner.h"
#include "bench/harness/section.h"

namespace tensorkv::bench {

// Calls of one tensor over the transport of `peers`: "tcp/push/64MiB".
Section MeasureTensors(const PeerSet& peers, RowRunner* runner);

// Calls of one tensor that a quick run makes at its end, if there is time: the
// largest, without naive gRPC, which takes too long.
Section MeasureLargeTensors(const PeerSet& peers, RowRunner* runner);

// Calls of many keys: "tcp/push/10000x256B".
Section MeasureBatches(const PeerSet& peers, RowRunner* runner);

// Ours beside ours: a large tensor and a small one, "size/push/64MiB"; many
// small tensors and their bytes in one, "batch/push/1000x4KiB".
Section MeasureOursBesideOurs(const PeerSet& peers, RowRunner* runner);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_SUITES_CALLS_SUITE_H_
