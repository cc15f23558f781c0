// Pushes that a rule is applied to, and the memory that contributions take
// while they wait for it.

#ifndef TENSORKV_BENCH_DATA_PATH_SUITES_RULES_SUITE_H_
#define TENSORKV_BENCH_DATA_PATH_SUITES_RULES_SUITE_H_

#include "bench/data_path/peers/servers.h"
#include "bench/data_path/suites/peer_set.h"
#include "bench/harness/row_runner.h"
#include "bench/harness/section.h"

namespace tensorkv::bench {

// Pushes of one tensor with the rules sgd and adam, "rule/sgd/64MiB", beside
// the same push with assign, naive gRPC (which keeps bytes) and memcpy.
Section MeasureRules(const PeerSet& peers, RowRunner* runner);

// Pushes of one tensor that the client encodes, "encoded/2bit/64MiB", beside
// the same push as it is; bytes are those before encoding.
Section MeasureEncoded(const PeerSet& peers, RowRunner* runner);

// The memory that a server has more than before, by what it counts, when it
// holds contributions of open rounds: as messages and as streams. On servers
// of their own.
Section MeasureHeldMemory(ServerLauncher* launcher, RowRunner* runner);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_SUITES_RULES_SUITE_H_
