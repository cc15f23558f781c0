// gRPC as one uses it first: generated code, one unary message per call.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_NAIVE_GRPC_PEER_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_NAIVE_GRPC_PEER_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "bench/data_path/peers/naive_store.grpc.pb.h"
#include "bench/data_path/peers/peer.h"

namespace tensorkv::bench {

// A stub of the server at `address`; no limit of messages.
std::shared_ptr<NaiveStore::Stub> ConnectToNaiveServer(
    const std::string& address);

// Copies values into the request and out of the reply. Each call under way has
// a thread; they share the connection. `server` is the process.
Peer NaiveGrpcPeer(std::shared_ptr<NaiveStore::Stub> stub, pid_t server);

// Unary calls that carry the bytes there and back, and do nothing else. The
// workload's verb does not matter: a call counts for as many bytes as the
// verb's.
Peer GrpcEchoPeer(std::shared_ptr<NaiveStore::Stub> stub, pid_t server);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_NAIVE_GRPC_PEER_H_
