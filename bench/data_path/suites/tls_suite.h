// What encryption costs.

#ifndef TENSORKV_BENCH_DATA_PATH_SUITES_TLS_SUITE_H_
#define TENSORKV_BENCH_DATA_PATH_SUITES_TLS_SUITE_H_

#include "bench/data_path/peers/servers.h"
#include "bench/data_path/suites/peer_set.h"
#include "bench/harness/row_runner.h"
#include "bench/harness/section.h"

namespace tensorkv::bench {

// Calls of one tensor over TLS beside the same in plain text, of `plain`:
// "tls/push/64MiB". A server of its own is started for them, if there is a row
// to measure.
Section MeasureTls(const PeerSet& plain, ServerLauncher* launcher,
                   RowRunner* runner);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_SUITES_TLS_SUITE_H_
