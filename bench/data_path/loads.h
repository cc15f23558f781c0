// The calls of a workload, by each of the stores that are compared.

#ifndef TENSORKV_BENCH_DATA_PATH_LOADS_H_
#define TENSORKV_BENCH_DATA_PATH_LOADS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/data_path/workload.h"
#include "bench/harness/rows.h"
#include "bench/harness/servers.h"
#include "client/client.h"

namespace tensorkv::bench {

// Bound of a call: far beyond what any takes.
inline constexpr absl::Duration kCallTimeout = absl::Minutes(2);

// The keys exist when a load has been made, and go with it.
// Errors of all: OutOfRange, saying why, for a workload that is beyond a
// store's limits; those of the servers and of their calls.

// Connects to a server of ours, of that name, through the client library; in
// the namespace of the options, which is made, if need be, as `config` says.
// Where the rule is not assign, no load may pull.
absl::StatusOr<std::shared_ptr<Client>> Connect(
    Servers* servers, const std::string& server, ClientOptions options = {},
    const NamespaceConfig& config = {});
absl::StatusOr<Load> TensorkvLoad(std::shared_ptr<Client> client, pid_t server,
                                  const Workload& workload);
// Returns a load in the default namespace.
absl::StatusOr<Load> TensorkvLoad(Servers* servers, const std::string& server,
                                  const Workload& workload);

// Returns a load on "raw", "redis" or "memcached", over a socket, without a
// client library: values go from and to the caller's memory without a copy.
absl::StatusOr<Load> SocketLoad(Servers* servers, const std::string& store,
                                const Workload& workload);

// Returns a load on gRPC as one uses it first: generated code, one unary
// message per call. Copies values into the request and out of the reply.
absl::StatusOr<Load> NaiveLoad(Servers* servers, const Workload& workload);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_LOADS_H_
