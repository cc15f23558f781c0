// The rows of tools/bench; docs/performance.md says what they mean.

#ifndef TENSORKV_BENCH_DATA_PATH_ROWS_H_
#define TENSORKV_BENCH_DATA_PATH_ROWS_H_

#include <vector>

#include "bench/harness/rows.h"
#include "bench/harness/servers.h"

namespace tensorkv::bench {

// `servers` outlives the rows.

// Calls of every size beside every other store ("tcp/push/64MiB"), beside ours
// of other sizes ("size/push/64MiB", "batch/push/1000x4KiB"), and over TLS
// beside plain text ("tls/push/64MiB").
std::vector<Row> CallRows(Servers* servers);

// Pushes with a rule ("rule/sgd/16MiB") beside assign, encoded ones
// ("encoded/2bit/16MiB") beside plain ones, rounds of 4 workers
// ("round/4x64MiB") beside unrelated pushes, and the memory of contributions
// that wait ("memory/waiting/16x16MiB") by what the server counts.
std::vector<Row> TrainingRows(Servers* servers);

// Calls of 100 keys in a namespace of 1,000,000 beside one of 100
// ("keys/stat/1000000"), and the memory that each of the million has beyond its
// value ("memory/key/init"). Pushes of 1,000 rows to a table of 10,000,000
// beside one of 100,000 ("rows/assign/10000000").
std::vector<Row> KeyRows(Servers* servers);

// Checkpoints that are written ("checkpoint/save/adam/8MiB") beside a plain
// file of as many bytes that is written and synced, and servers that start from
// them
// ("checkpoint/restore/adam/8MiB") beside a plain file that is read. About all
// bytes of a checkpoint, those that it shares too.
std::vector<Row> CheckpointRows(Servers* servers);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_ROWS_H_
