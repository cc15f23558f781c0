// What is measured. Each function is one table, or none where the plan has no
// row of it; docs/performance.md says what the rows mean.

#ifndef TENSORKV_BENCH_DATA_PATH_SUITES_SUITES_H_
#define TENSORKV_BENCH_DATA_PATH_SUITES_SUITES_H_

#include "bench/data_path/peers/servers.h"
#include "bench/data_path/suites/peer_set.h"
#include "bench/harness/row_runner.h"
#include "bench/harness/section.h"

namespace tensorkv::bench {

// --- Calls of every size, beside every reference ----------------------------

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

// Calls of one tensor over TLS beside the same in plain text, of `plain`:
// "tls/push/64MiB". A server of its own is started for them, if there is a row
// to measure.
Section MeasureTls(const PeerSet& plain, ServerLauncher* launcher,
                   RowRunner* runner);

// --- Training ---------------------------------------------------------------

// Pushes of one tensor with the rules sgd and adam, "rule/sgd/64MiB", beside
// the same push with assign, naive gRPC (which keeps bytes) and memcpy.
Section MeasureRules(const PeerSet& peers, RowRunner* runner);

// Pushes of one tensor that the client encodes, "encoded/2bit/64MiB", beside
// the same push as it is; bytes are those before encoding.
Section MeasureEncoded(const PeerSet& peers, RowRunner* runner);

// Rounds of 2, 4 and 8 workers beside as many pushes of the same size to keys
// that have nothing to do with each other: "round/4x64MiB".
Section MeasureRounds(const PeerSet& peers, RowRunner* runner);

// Rounds of 4 workers with the rule sgd beside the same with assign:
// "round/4x64MiB/sgd".
Section MeasureRuleRounds(const PeerSet& peers, RowRunner* runner);

// --- Many keys, on servers of their own -------------------------------------

// The memory that a server has more than before, by what it counts, when it
// holds contributions of open rounds: as messages and as streams.
Section MeasureHeldMemory(ServerLauncher* launcher, RowRunner* runner);

// List, Stat and Push of 100 keys a call, in namespaces of 100 to 1,000,000
// keys of 1 KiB, each beside the namespace of 100: "keys/stat/1000000". And
// the memory that the server has per key at 1,000,000 keys.
Section MeasureKeys(ServerLauncher* launcher, RowRunner* runner);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_SUITES_SUITES_H_
