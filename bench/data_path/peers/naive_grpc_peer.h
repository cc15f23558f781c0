// gRPC as one uses it first: generated code, one unary message per call.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_NAIVE_GRPC_PEER_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_NAIVE_GRPC_PEER_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/data_path/peers/naive_store.grpc.pb.h"
#include "bench/data_path/peers/peer.h"

namespace tensorkv::bench {

// A stub of the server at `address`; no limit of messages.
std::shared_ptr<NaiveStore::Stub> ConnectToNaiveServer(
    const std::string& address);

// Copies values into the request and out of the reply. Each call under way has
// a thread; they share the connection.
class NaiveGrpcPeer final : public Peer {
 public:
  // Protocol Buffers' bound of a message.
  static constexpr int64_t kMaxMessageBytes = (int64_t{2} << 30) - 1;

  // `server` is the process.
  NaiveGrpcPeer(std::shared_ptr<NaiveStore::Stub> stub, pid_t server)
      : stub_(std::move(stub)), server_(server) {}

  std::string name() const override { return "naive"; }
  absl::StatusOr<std::unique_ptr<Load>> MakeLoad(
      const Workload& workload) override;

 private:
  const std::shared_ptr<NaiveStore::Stub> stub_;
  const pid_t server_;
};

// Unary calls that carry the bytes there and back, and do nothing else. The
// workload's verb does not matter: a call counts for as many bytes as the
// verb's.
class GrpcEchoPeer final : public Peer {
 public:
  GrpcEchoPeer(std::shared_ptr<NaiveStore::Stub> stub, pid_t server)
      : stub_(std::move(stub)), server_(server) {}

  std::string name() const override { return "echo"; }
  absl::StatusOr<std::unique_ptr<Load>> MakeLoad(
      const Workload& workload) override;

 private:
  const std::shared_ptr<NaiveStore::Stub> stub_;
  const pid_t server_;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_NAIVE_GRPC_PEER_H_
