// Ours, through the client library.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_TENSORKV_PEER_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_TENSORKV_PEER_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "bench/data_path/peers/peer.h"
#include "client/client.h"

namespace tensorkv::bench {

// Bound of a call: far beyond what any takes.
inline constexpr absl::Duration kCallTimeout = absl::Minutes(2);

// `server` is the process that `client` is connected to. Unlike others, it may
// have several loads at a time: each has keys of its own. Only where the rule
// is assign do loads that pull find what they pushed.
Peer TensorkvPeer(std::shared_ptr<Client> client, pid_t server);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_TENSORKV_PEER_H_
