// The memory's own speed.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_MEMCPY_PEER_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_MEMCPY_PEER_H_

#include "bench/data_path/peers/peer.h"

namespace tensorkv::bench {

// One copy per direction, on one thread; "calls under way" are made one after
// the other.
Peer MemcpyPeer();

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_MEMCPY_PEER_H_
