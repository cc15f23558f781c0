// How many connections calls use, whatever decides about it.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_CONNECTION_COUNT_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_CONNECTION_COUNT_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tensorkv::bench {

// Runs `calls` and counts the TCP connections of this process to `address`
// ("127.0.0.1:PORT") over which it moved bytes of tensors: at least a tenth of
// what the busiest one did. At least 1.
// Errors: those of `calls`.
absl::StatusOr<int> CountBusyConnections(
    const std::string& address, absl::FunctionRef<absl::Status()> calls);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_CONNECTION_COUNT_H_
