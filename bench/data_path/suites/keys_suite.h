// What a key costs where there are many.

#ifndef TENSORKV_BENCH_DATA_PATH_SUITES_KEYS_SUITE_H_
#define TENSORKV_BENCH_DATA_PATH_SUITES_KEYS_SUITE_H_

#include "bench/data_path/peers/servers.h"
#include "bench/harness/row_runner.h"
#include "bench/harness/section.h"

namespace tensorkv::bench {

// List, Stat and Push of 100 keys a call, in namespaces of 100 to 1,000,000
// keys of 1 KiB, each beside the namespace of 100: "keys/stat/1000000". And
// the memory that the server has per key at 1,000,000 keys. On a server of
// its own.
Section MeasureKeys(ServerLauncher* launcher, RowRunner* runner);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_SUITES_KEYS_SUITE_H_
