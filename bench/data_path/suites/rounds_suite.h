// Rounds of synchronous training.

#ifndef TENSORKV_BENCH_DATA_PATH_SUITES_ROUNDS_SUITE_H_
#define TENSORKV_BENCH_DATA_PATH_SUITES_ROUNDS_SUITE_H_

#include "bench/data_path/suites/peer_set.h"
#include "bench/harness/row_runner.h"
#include "bench/harness/section.h"

namespace tensorkv::bench {

// Rounds of 2, 4 and 8 workers beside as many pushes of the same size to keys
// that have nothing to do with each other: "round/4x64MiB".
Section MeasureRounds(const PeerSet& peers, RowRunner* runner);

// Rounds of 4 workers with the rule sgd beside the same with assign:
// "round/4x64MiB/sgd".
Section MeasureRuleRounds(const PeerSet& peers, RowRunner* runner);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_SUITES_ROUNDS_SUITE_H_
