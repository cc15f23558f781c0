// A TensorKV server.

#ifndef TENSORKV_SERVICE_SERVER_SERVER_H_
#define TENSORKV_SERVICE_SERVER_SERVER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/executor.h"
#include "base/listening_sockets.h"
#include "contract/placement.h"
#include "contract/requests.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "service/checkpoint/checkpoints.h"
#include "service/cluster/known_placement.h"
#include "service/cluster/partition_restorer.h"
#include "service/cluster/placement_stage.h"
#include "service/cluster/snapshot_sweep.h"
#include "service/metrics/grpc_server_metrics.h"
#include "service/metrics/http_endpoint.h"
#include "service/metrics/readings.h"
#include "service/rpc/handlers.h"
#include "service/rpc/health_service.h"
#include "service/rpc/incarnation.h"
#include "service/rpc/open_streams.h"
#include "service/rpc/stream_call.h"
#include "service/rpc/striped_calls.h"
#include "service/rpc/tensorkv_services.h"
#include "service/rpc/tickets.h"
#include "service/rpc/unimplemented_service.h"
#include "service/security/access_control.h"
#include "service/server/call_log.h"
#include "service/server/cluster_part.h"
#include "service/server/connection_acceptor.h"
#include "service/server/connection_filter.h"
#include "service/server/device_probe.h"
#include "service/server/engine.h"
#include "service/server/mirroring.h"
#include "service/server/open_device.h"
#include "service/server/peer_service.h"
#include "service/server/rpc_probe.h"
#include "service/server/server_calls.h"
#include "service/server/server_files.h"
#include "service/server/server_options.h"
#include "service/server/watchdog.h"
#include "service/store/call_dispatch.h"

namespace tensorkv {

// Serves a store of its own, and its metrics, from creation to shutdown. Any
// number of servers can live in one process. Thread-safe.
//
// If its device fails, state is lost: the server reports not ready and
// not well, waiting calls end and all others are answered with Unavailable and
// the cause.
class Server {
 public:
  // Listens and serves.
  // Errors: InvalidArgument (see CheckServerOptions) · FailedPrecondition (no
  // such device) · Unavailable (cannot listen there, with the system's reason,
  // or another server has the checkpoints) · DataLoss and others (the last
  // checkpoint cannot be restored).
  static absl::StatusOr<std::unique_ptr<Server>> Create(
      const ServerOptions& options);
  // Creates a server on a device that is open already.
  static absl::StatusOr<std::unique_ptr<Server>> Create(
      const ServerOptions& options, OpenedDevice device);

  // Shuts down without grace.
  ~Server();

  // Stops serving: reports not ready, ends waiting calls with Unavailable,
  // lets other calls end for as long as `grace`, then cancels them. Returns
  // when none is left. The metrics port answers until destruction. Later
  // calls do nothing.
  void Shutdown(absl::Duration grace);

  // Writes what there is as a checkpoint, if there is a directory for them and
  // the device has not failed. For after Shutdown. Errors: those of
  // SaveCheckpoint.
  absl::Status SaveLastCheckpoint();

  // Reads the files of the policy and of the tokens now, if there is a policy,
  // and logs what came of it: if a file is wrong, the former rules stay.
  // Blocks.
  void ReloadAccess();

  // Makes this server the one named `server_name` in the placement: from now on
  // it refuses calls about keys that the placement gives to others. Ignores an
  // older placement than the one that it knows. Errors: InvalidArgument.
  absl::Status SetPlacement(ClusterPlacement placement,
                            std::string server_name);

  // Returns the counts of the sums that it makes with others.
  const MirrorCounts& mirror_counts() const { return mirroring_.counts(); }

  // Returns the address that the server listens on, with the port that was
  // bound.
  std::string address() const;
  std::string metrics_address() const;  // empty if there is none
  // Returns 0 for a Unix socket.
  int port() const { return acceptor_->port(); }
  int metrics_port() const;  // 0 if there is none

  // Returns why DeviceChoice::kAuto has put tensors on the CPU; empty if it has
  // not.
  const std::string& why_not_cuda() const { return why_not_cuda_; }

  // Returns the answer to DescribeServer.
  ServerStatus Describe() const { return *calls_.DescribeServer({}); }

 private:
  Server(const ServerOptions& options, std::unique_ptr<ServerFiles> files,
         OpenedDevice device, std::unique_ptr<DeviceLink> link);

  // These functions make what members of the server are constructed with.
  AccessControl::Options AccessOptionsOf();
  StreamCall::Environment StreamEnvironmentOf();
  CallDispatch::Parts StagedStoreParts();
  HandlerDependencies HandlerDependenciesOf();
  std::unique_ptr<ConnectionFilter> ConnectionFilterOf();

  absl::Status OpenCheckpoints();
  absl::Status RestoreLastCheckpoint();
  absl::Status StartGrpc();
  // Errors: why the connection is to be closed.
  absl::Status AdmitConnection(int fd);
  void StartAccepting(ListeningSockets sockets);
  void StartWatchdog();
  // Creates the probe of the GPU, and returns the part that uses it.
  Watchdog::Part WatchDevice();
  void JoinCluster();
  TakeoverCheckpoints TakeoverCheckpointsOf();
  absl::Status StartHttp();
  std::vector<Reading> ReadingsOf();
  // Returns the metrics that ReadingsOf has of no other object.
  std::vector<Reading> OtherReadings();
  CheckpointCounts checkpoint_counts() const {
    return checkpoints_ ? checkpoints_->counts() : CheckpointCounts();
  }
  // Returns null where the server is in no cluster, or not yet.
  ClusterPart* cluster_part() const {
    return is_in_cluster_ ? cluster_part_.get() : nullptr;
  }
  // Returns OK if everything works, else why only another start can mend it.
  absl::Status health();
  // Returns OK if it takes calls, else why not.
  absl::Status readiness() const;
  // Returns what is wrong although it takes calls; empty if nothing is.
  std::string Remark() const;
  ConnectionFilter::Counts filter_counts() const {
    return connection_filter_ ? connection_filter_->counts()
                              : ConnectionFilter::Counts();
  }
  // Returns null before the server accepts connections.
  ConnectionAcceptor* acceptor() {
    return is_started_ ? acceptor_.get() : nullptr;
  }
  // Returns the watchdog's status; OK before the server has started.
  absl::Status watched() const {
    return is_started_ ? watchdog_->status() : absl::OkStatus();
  }
  // Reports not ready, without a shutdown.
  void StopServing();

  const ServerOptions options_;
  // Its credentials outlive what gRPC has of the server.
  const std::unique_ptr<ServerFiles> files_;
  Incarnation incarnation_;
  const std::string why_not_cuda_;
  // The acceptor and the watchdog are there, for the thread of the HTTP port.
  std::atomic<bool> is_started_ = false;
  std::atomic<bool> is_ready_ = false;
  std::atomic<bool> is_shut_down_ = false;

  prometheus::Registry registry_;
  Mirroring mirroring_;
  Engine engine_;
  AccessControl access_;
  KnownPlacement placement_;
  const PlacementStage own_keys_;
  const CallDispatch dispatch_;
  // Without stages: the status page shows all keys to whoever may see it.
  const CallDispatch dispatch_of_page_;
  prometheus::Histogram& checkpoint_pauses_;
  std::unique_ptr<Checkpoints> checkpoints_;
  ServerCalls calls_;
  const PeerService peer_calls_;
  SnapshotSweep snapshot_sweep_;
  GrpcServerMetrics call_metrics_;
  CallLog call_log_;
  StripedCalls striped_calls_;
  Tickets tickets_;
  OpenStreams open_streams_;
  const StreamCall::Environment streams_;
  Handlers handlers_;
  TensorKvServices services_;
  HealthService health_;
  UnimplementedService unimplemented_;
  // Null: nothing looks at connections before gRPC does.
  const std::unique_ptr<ConnectionFilter> connection_filter_;
  std::unique_ptr<grpc::Server> grpc_server_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor>
      grpc_acceptor_;

  // Outlives what it probes with.
  std::unique_ptr<Watchdog> watchdog_;
  std::unique_ptr<RpcProbe> rpc_probe_;
  std::unique_ptr<DeviceProbe> device_probe_;  // null without a GPU
  // Runs the probe that waits for the store's locks.
  Executor store_probe_;
  std::unique_ptr<ConnectionAcceptor> acceptor_;

  // Null: the server is in no cluster, or not yet.
  std::unique_ptr<ClusterPart> cluster_part_;
  // True once cluster_part_ is there, for calls that come while the server
  // starts.
  std::atomic<bool> is_in_cluster_ = false;

  const Readings readings_;
  std::unique_ptr<HttpEndpoint> http_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_SERVER_H_
