#include "bench/data_path/suites/peer_set.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/connection_count.h"
#include "bench/data_path/peers/memcached_protocol.h"
#include "bench/data_path/peers/memcpy_peer.h"
#include "bench/data_path/peers/naive_grpc_peer.h"
#include "bench/data_path/peers/raw_protocol.h"
#include "bench/data_path/peers/redis_protocol.h"
#include "bench/data_path/peers/socket_peer.h"

namespace tensorkv::bench {
namespace {

SocketPeerOptions OptionsOf(const char* name, const ServerProcess& server,
                            int64_t max_value_bytes) {
  return {.name = name,
          .address = server.address,
          .server = server.pid(),
          .max_value_bytes = max_value_bytes};
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerSet>> PeerSet::Start(
    ServerLauncher* launcher, Transport transport) {
  std::unique_ptr<PeerSet> peers(new PeerSet(transport));
  RETURN_IF_ERROR(peers->StartOurs(launcher));
  RETURN_IF_ERROR(peers->StartReferences(launcher));
  peers->StartRedis(launcher);
  peers->StartMemcached(launcher);
  peers->references_.push_back(std::make_unique<MemcpyPeer>());
  return peers;
}

absl::Status PeerSet::StartOurs(ServerLauncher* launcher) {
  ASSIGN_OR_RETURN(our_server_, launcher->StartTensorkv(transport_));
  ASSIGN_OR_RETURN(
      ours_, TensorkvPeer::Create(our_server_.address, our_server_.pid()));
  return absl::OkStatus();
}

absl::Status PeerSet::StartReferences(ServerLauncher* launcher) {
  ASSIGN_OR_RETURN(ServerProcess raw,
                   launcher->StartReference("raw", transport_));
  SocketPeerOptions options =
      OptionsOf("raw", raw, std::numeric_limits<int64_t>::max());
  options.uses_stripes = true;
  references_.push_back(std::make_unique<SocketPeer>(
      std::move(options), std::make_unique<RawProtocol>()));
  servers_.push_back(std::move(raw));

  ASSIGN_OR_RETURN(ServerProcess naive,
                   launcher->StartReference("naive", transport_));
  const std::shared_ptr<NaiveStore::Stub> stub =
      ConnectToNaiveServer(naive.address);
  references_.push_back(std::make_unique<NaiveGrpcPeer>(stub, naive.pid()));
  references_.push_back(std::make_unique<GrpcEchoPeer>(stub, naive.pid()));
  servers_.push_back(std::move(naive));
  return absl::OkStatus();
}

void PeerSet::StartRedis(ServerLauncher* launcher) {
  absl::StatusOr<ServerProcess> server = launcher->StartRedis(transport_);
  if (!server.ok()) {
    missing_.push_back(absl::StrCat("redis: ", server.status().message()));
    return;
  }
  references_.push_back(std::make_unique<SocketPeer>(
      OptionsOf("redis", *server, RedisProtocol::kMaxValueBytes),
      std::make_unique<RedisProtocol>()));
  servers_.push_back(*std::move(server));
}

void PeerSet::StartMemcached(ServerLauncher* launcher) {
  absl::StatusOr<ServerProcess> server = launcher->StartMemcached(transport_);
  if (!server.ok()) {
    missing_.push_back(absl::StrCat("memcached: ", server.status().message()));
    return;
  }
  references_.push_back(std::make_unique<SocketPeer>(
      OptionsOf("memcached", *server, MemcachedProtocol::kMaxValueBytes),
      std::make_unique<MemcachedProtocol>()));
  servers_.push_back(*std::move(server));
}

int ConnectionCounter::Count(const Workload& workload) {
  const auto [entry, is_new] =
      counts_.try_emplace({workload.verb, workload.bytes_per_key,
                           workload.num_keys, workload.in_flight},
                          1);
  if (is_new) entry->second = Measure(workload).value_or(1);
  return entry->second;
}

absl::StatusOr<int> ConnectionCounter::Measure(const Workload& workload) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Load> load,
                   peers_.ours()->MakeLoad(workload));
  return CountBusyConnections(peers_.our_server().address, [&] {
    std::vector<absl::Duration> ignored;
    return load->Run(workload.in_flight, &ignored);
  });
}

}  // namespace tensorkv::bench
