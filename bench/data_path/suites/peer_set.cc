#include "bench/data_path/suites/peer_set.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/memcpy_peer.h"
#include "bench/data_path/peers/naive_grpc_peer.h"
#include "bench/data_path/peers/socket_peer.h"
#include "bench/data_path/peers/tensorkv_peer.h"

namespace tensorkv::bench {

absl::StatusOr<std::unique_ptr<PeerSet>> PeerSet::Start(
    ServerLauncher* launcher, Transport transport) {
  std::unique_ptr<PeerSet> peers(new PeerSet(transport));
  RETURN_IF_ERROR(peers->StartOurs(launcher));
  RETURN_IF_ERROR(peers->StartReferences(launcher));
  peers->AddSocketPeer("redis", launcher->StartRedis(transport),
                       kRedisProtocol);
  peers->AddSocketPeer("memcached", launcher->StartMemcached(transport),
                       kMemcachedProtocol);
  peers->references_.push_back(MemcpyPeer());
  return peers;
}

absl::StatusOr<std::unique_ptr<Client>> PeerSet::Connect(
    ClientOptions options) const {
  options.target = our_server_.address;
  options.timeout = kCallTimeout;
  return Client::Connect(options);
}

absl::Status PeerSet::StartOurs(ServerLauncher* launcher) {
  ASSIGN_OR_RETURN(our_server_, launcher->StartTensorkv(transport_));
  ASSIGN_OR_RETURN(std::shared_ptr<Client> client, Connect({}));
  ours_ = TensorkvPeer(std::move(client), our_server_.pid());
  return absl::OkStatus();
}

absl::Status PeerSet::StartReferences(ServerLauncher* launcher) {
  absl::StatusOr<ServerProcess> raw =
      launcher->StartReference("raw", transport_);
  RETURN_IF_ERROR(raw.status());
  AddSocketPeer("raw", std::move(raw), kRawProtocol);
  ASSIGN_OR_RETURN(ServerProcess naive,
                   launcher->StartReference("naive", transport_));
  const std::shared_ptr<NaiveStore::Stub> stub =
      ConnectToNaiveServer(naive.address);
  references_.push_back(NaiveGrpcPeer(stub, naive.pid()));
  references_.push_back(GrpcEchoPeer(stub, naive.pid()));
  servers_.push_back(std::move(naive));
  return absl::OkStatus();
}

void PeerSet::AddSocketPeer(const char* name,
                            absl::StatusOr<ServerProcess> server,
                            const WireProtocol& protocol) {
  if (!server.ok()) {
    missing_.push_back(absl::StrCat(name, ": ", server.status().message()));
    return;
  }
  references_.push_back(SocketPeer(
      {.name = name, .address = server->address, .server = server->pid()},
      protocol));
  servers_.push_back(*std::move(server));
}

}  // namespace tensorkv::bench
