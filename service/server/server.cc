#include "service/server/server.h"

#include <poll.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "base/listen_address.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "contract/keep_grpc.h"
#include "contract/method.h"
#include "grpc/support/time.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/server_builder.h"
#include "service/checkpoint/checkpoint_directory.h"
#include "service/server/checkpoint_readings.h"
#include "service/server/grpc_limits.h"
#include "service/status/status_page.h"
#include "spdlog/spdlog.h"

namespace tensorkv {
namespace {

absl::Status CannotListen(const std::string& address,
                          const absl::Status& reason) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address, ": ", reason.message()));
}

// Returns whether the log takes a line: its reader may have stopped; events
// wait for nobody, and are lost.
bool TakesLine() {
  pollfd log = {STDERR_FILENO, POLLOUT, 0};
  return poll(&log, 1, 0) == 1;
}

void LogEvent(const std::string& line) {
  if (TakesLine()) spdlog::info("{}", line);
}

// Whatever the level of the log is.
void LogAudit(const std::string& line) {
  if (!TakesLine()) return;
  spdlog::logger log(*spdlog::default_logger());
  log.set_level(spdlog::level::info);
  log.info("{}", line);
}

// A GPU whose work does not end for so long stands still, for /healthz too.
constexpr absl::Duration kDeviceTimeout = absl::Seconds(15);

// 0 would mean none.
uint64_t NewIdentity() {
  return absl::Uniform<uint64_t>(absl::BitGen(), 1, UINT64_MAX);
}

std::set<std::string> ServiceNames() {
  std::set<std::string> names;
  for (const Service service : kAllServices) names.emplace(NameOf(service));
  return names;
}

MessageLimits LimitsOf(const ServerOptions& options) {
  return {.max_message_bytes = options.max_message_bytes};
}

// gRPC ends calls on the monotonic clock, whatever the wall clock does.
gpr_timespec After(absl::Duration grace) {
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_millis(absl::ToInt64Milliseconds(grace), GPR_TIMESPAN));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Create(
    const ServerOptions& options) {
  RETURN_IF_ERROR(CheckServerOptions(options));
  ASSIGN_OR_RETURN(
      OpenedDevice device,
      OpenDevice(options.device, options.num_threads, [&options](int ordinal) {
        return OpenCudaBackend(ordinal, options.gpu_memory);
      }));
  return Create(options, std::move(device));
}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(
    const ServerOptions& options, OpenedDevice device) {
  RETURN_IF_ERROR(CheckServerOptions(options));
  // Before what takes long.
  ASSIGN_OR_RETURN(std::unique_ptr<ServerFiles> files,
                   ServerFiles::Create(options, LogEvent));
  if (options.cluster) {
    RETURN_IF_ERROR(CheckEtcdAccess(options, files->etcd()));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceLink> link,
                   OpenMirrorLink(options, device));
  std::unique_ptr<Server> server(new Server(
      options, std::move(files), std::move(device), std::move(link)));
  RETURN_IF_ERROR(server->files_->WatchAccess(&server->access_));
  RETURN_IF_ERROR(server->OpenCheckpoints());
  // It answers while a checkpoint is restored.
  RETURN_IF_ERROR(server->StartHttp());
  RETURN_IF_ERROR(server->RestoreLastCheckpoint());
  RETURN_IF_ERROR(server->StartGrpc());
  server->StartWatchdog();
  server->is_ready_ = true;
  if (options.cluster) {
    server->JoinCluster();
  } else {
    server->health_.SetServing();
  }
  server->is_started_ = true;
  if (options.checkpoint_interval > absl::ZeroDuration()) {
    server->checkpoints_->StartSaving(options.checkpoint_interval);
  }
  // From now on: a device that has failed by now is reported too.
  server->engine_.SetFailureListener([server = server.get()](
                                         const absl::Status& status) {
    spdlog::critical("not serving any more: {}", std::string(status.message()));
    server->StopServing();
  });
  return server;
}

Server::Server(const ServerOptions& options, std::unique_ptr<ServerFiles> files,
               OpenedDevice device, std::unique_ptr<DeviceLink> link)
    : options_(options),
      files_(std::move(files)),
      incarnation_(NewIdentity(), [this] { return engine_.health(); }),
      why_not_cuda_(std::move(device.why_not_cuda)),
      mirroring_(options, std::move(link),
                 std::bind_front(&ServerFiles::ChannelTo, files_.get())),
      engine_(options, std::move(device), LogEvent, &registry_,
              mirroring_.exchange()),
      access_(AccessOptionsOf()),
      placement_(options.cluster ? options.cluster->server_name : "",
                 [this](const KnownPlacement::View& view) {
                   mirroring_.SetPlacement(view);
                   engine_.NameDefault(DefaultUidOf(view.placement().cluster));
                   engine_.partition_moves().Own(view.own_partitions());
                   snapshot_sweep_.Start();
                 }),
      own_keys_(&placement_, std::bind_front(&Engine::Knows, &engine_),
                std::bind_front(&Engine::IsMirrored, &engine_)),
      dispatch_(StagedStoreParts()),
      dispatch_of_page_({.store = &engine_.store(),
                         .namespaces = &engine_.namespaces(),
                         .staging = &engine_.staging()}),
      checkpoint_pauses_(AddCheckpointPauses(registry_)),
      calls_({.options = &options_,
              .incarnation = &incarnation_,
              .engine = &engine_,
              .placement = &placement_,
              .access = &access_,
              .checkpoints = [this] { return checkpoints_.get(); },
              .cluster = [this] { return cluster_part(); }}),
      peer_calls_({.mirrors = mirroring_.exchange(),
                   .cluster = [this] { return cluster_part(); },
                   .placement = &placement_,
                   .shares = &engine_.snapshot_shares(),
                   .access = &access_,
                   .limits = LimitsOf(options)}),
      snapshot_sweep_(&placement_,
                      std::bind_front(&ServerFiles::ChannelTo, files_.get()),
                      &engine_.snapshot_shares()),
      call_metrics_(&registry_),
      call_log_(&call_metrics_, &engine_.event_log(), options.slow_call),
      striped_calls_(options.stream_timeout, &engine_.alarms()),
      tickets_(options.stream_timeout, &engine_.alarms()),
      open_streams_(options.max_open_streams),
      streams_(StreamEnvironmentOf()),
      handlers_(HandlerDependenciesOf(), LimitsOf(options)),
      services_(&handlers_, &streams_, options.max_uploads, &call_log_),
      health_(ServiceNames()),
      connection_filter_(ConnectionFilterOf()),
      readings_(ReadingsOf()) {}

AccessControl::Options Server::AccessOptionsOf() {
  return {.policy_file = options_.policy_file,
          .token_file = options_.token_file,
          .on_audit = LogAudit,
          .on_refused = [this](Method method,
                               absl::FunctionRef<std::string()> line) {
            engine_.event_log().LogCallRefused(RightOf(method) == Right::kAdmin,
                                               line);
          }};
}

StreamCall::Environment Server::StreamEnvironmentOf() {
  return {.session = {.calls = &dispatch_,
                      .striped_calls = &striped_calls_,
                      .tickets = &tickets_,
                      .limits = LimitsOf(options_)},
          .open_streams = &open_streams_,
          .incarnation = &incarnation_,
          .access = &access_,
          .stream_timeout = options_.stream_timeout,
          .slow_call = options_.slow_call,
          .alarms = &engine_.alarms(),
          .observer = &call_log_};
}

CallDispatch::Parts Server::StagedStoreParts() {
  return {.store = &engine_.store(),
          .namespaces = &engine_.namespaces(),
          .staging = &engine_.staging(),
          .stages = {&access_, &own_keys_},
          .shows = std::bind_front(&AccessControl::Allows, &access_,
                                   Method::kListNamespaces),
          .list = [this](const ListRequest& request, const CallContext& of) {
            return own_keys_.List(
                request, [&] { return engine_.store().List(request, of); });
          }};
}

HandlerDependencies Server::HandlerDependenciesOf() {
  return {.calls = &dispatch_,
          .incarnation = &incarnation_,
          .tickets = &tickets_,
          .server = &calls_,
          .ask_peer = std::bind_front(&PeerService::Handle, &peer_calls_)};
}

// Returns null on a TLS port: a filter cannot look into what is encrypted.
std::unique_ptr<ConnectionFilter> Server::ConnectionFilterOf() {
  if (!options_.connection_filter || options_.tls.is_on()) return nullptr;
  return options_.connection_filter(
      {.max_unfinished_bytes = MaxUnfinishedBytes(
           options_, engine_.budgets().host()->limit_bytes()),
       .max_streams = options_.max_streams},
      [this](absl::string_view reason) {
        engine_.event_log().LogPeerRefused(reason);
      });
}

Server::~Server() {
  Shutdown(absl::ZeroDuration());
  files_->Stop();
  if (checkpoints_ != nullptr) checkpoints_->Stop();
  // Calls that have ended, and their alarms, may still be in its hands, and use
  // what is destroyed before it.
  engine_.Stop();
}

absl::Status Server::OpenCheckpoints() {
  if (options_.checkpoint_dir.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      checkpoints_,
      Checkpoints::Create({.directory = options_.checkpoint_dir,
                           .keep = options_.checkpoint_keep,
                           .full_every = options_.checkpoint_full_every,
                           .incarnation = incarnation_.id(),
                           .fallback = options_.checkpoint_fallback,
                           .on_pause =
                               [this](absl::Duration pause) {
                                 checkpoint_pauses_.Observe(
                                     absl::ToDoubleSeconds(pause));
                               },
                           .log = LogEvent},
                          &engine_.snapshots()));
  return absl::OkStatus();
}

absl::Status Server::RestoreLastCheckpoint() {
  if (checkpoints_ == nullptr) return absl::OkStatus();
  LogEvent(absl::StrCat("starting metrics=", metrics_address()));
  ASSIGN_OR_RETURN(const std::optional<CheckpointStatus> restored,
                   checkpoints_->RestoreLast());
  if (restored) {
    LogEvent(absl::StrCat("checkpoint restored: name=", restored->name(),
                          " keys=", restored->num_keys(),
                          " bytes=", restored->bytes()));
  }
  return absl::OkStatus();
}

void Server::ReloadAccess() {
  if (options_.policy_file.empty()) return;
  const absl::Status status = files_->ReloadAccess();
  if (status.ok()) {
    spdlog::info("reloaded {}", access_.Summary());
  } else {
    spdlog::error("not reloaded, the former access rules stay: {}",
                  std::string(status.message()));
  }
}

absl::Status Server::SetPlacement(ClusterPlacement placement,
                                  std::string server_name) {
  return placement_.Set(std::move(placement), std::move(server_name));
}

absl::Status Server::SaveLastCheckpoint() {
  if (!checkpoints_) return absl::OkStatus();
  checkpoints_->Stop();
  RETURN_IF_ERROR(engine_.health());
  return checkpoints_->Save().status();
}

absl::Status Server::StartGrpc() {
  absl::StatusOr<ListeningSockets> sockets =
      ListeningSockets::Open(options_.listen);
  if (!sockets.ok()) return CannotListen(options_.listen, sockets.status());
  KeepGrpc();
  grpc::ServerBuilder builder;
  ApplyLimits(options_, &builder);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc_acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      files_->credentials());
  services_.Register(&builder);
  builder.RegisterService(&health_);
  builder.RegisterCallbackGenericService(&unimplemented_);
  grpc_server_ = builder.BuildAndStart();
  if (grpc_server_ == nullptr) return absl::InternalError("gRPC cannot start");
  StartAccepting(*std::move(sockets));
  return absl::OkStatus();
}

absl::Status Server::AdmitConnection(int fd) {
  if (const std::optional<uint32_t> user = UserOf(fd)) {
    RETURN_IF_ERROR(access_.AdmitUnixUser(*user));
  }
  return connection_filter_ ? connection_filter_->Watch(fd) : absl::OkStatus();
}

void Server::StartAccepting(ListeningSockets sockets) {
  acceptor_ = std::make_unique<ConnectionAcceptor>(
      std::move(sockets),
      ConnectionAcceptor::Options{
          .max_connections = MaxConnections(options_),
          .admit = [this](int fd) { return AdmitConnection(fd); },
          .take =
              [this](int listener, int fd) {
                grpc::experimental::ExternalConnectionAcceptor::
                    NewConnectionParameters connection;
                connection.listener_fd = listener;
                connection.fd = fd;
                grpc_acceptor_->HandleNewConnection(&connection);
              },
          .refused =
              [this](absl::string_view reason) {
                engine_.event_log().LogPeerRefused(reason);
              }});
}

// A GPU that hangs tells nobody: it counts as failed.
Watchdog::Part Server::WatchDevice() {
  Backend& device = engine_.device();
  device_probe_ = std::make_unique<DeviceProbe>(&device);
  return {.name = std::string(device.name()),
          .probe =
              [this](Watchdog::Done done) {
                device_probe_->Start(std::move(done));
              },
          .on_stuck =
              [&device] {
                device.health()
                    .MarkFailed(absl::UnavailableError("its work does not end"))
                    .IgnoreError();
              },
          .limit = kDeviceTimeout};
}

void Server::StartWatchdog() {
  rpc_probe_ = std::make_unique<RpcProbe>(grpc_server_.get());
  const auto probe_store = [this](Watchdog::Done done) {
    store_probe_.Submit([this, done = std::move(done)]() mutable {
      engine_.Probe();
      std::move(done)();
    });
  };
  std::vector<Watchdog::Part> parts = {
      {.name = "listener",
       .probe =
           [this](Watchdog::Done done) { acceptor_->Probe(std::move(done)); }},
      {.name = "rpc",
       .probe =
           [this](Watchdog::Done done) { rpc_probe_->Start(std::move(done)); }},
      {.name = "store", .probe = probe_store}};
  if (!engine_.device().is_host()) parts.push_back(WatchDevice());
  watchdog_ = std::make_unique<Watchdog>(
      std::move(parts),
      Watchdog::Options{.log =
                            [this](absl::string_view line) {
                              if (is_shut_down_) return;  // nothing is probed
                              LogEvent(absl::StrCat("watchdog: ", line));
                            }},
      &engine_.alarms());
}

void Server::JoinCluster() {
  cluster_part_ = std::make_unique<ClusterPart>(
      options_, address(),
      ClusterPart::Environment{
          .etcd = files_->etcd(),
          .placement = &placement_,
          .store = &engine_.partition_moves(),
          .connect = std::bind_front(&ServerFiles::ChannelTo, files_.get()),
          .checkpoints = TakeoverCheckpointsOf(),
          .listener = {.placed =
                           [this] {
                             health_.SetServing();
                             // It may have stopped at that moment.
                             if (!is_ready_) health_.SetNotServing();
                             LogEvent("cluster: serving");
                           },
                       .replaced = [this] { StopServing(); },
                       // Other servers may answer them.
                       .disowned =
                           [this](const absl::Status& status) {
                             engine_.InterruptWaits(status);
                           },
                       .log = LogEvent}});
  is_in_cluster_ = true;
}

TakeoverCheckpoints Server::TakeoverCheckpointsOf() {
  return {.restore_last_of = [this](const std::string& server,
                                    Restoration& to) -> absl::Status {
            const std::string& root = options_.cluster->checkpoints;
            if (root.empty()) {
              return absl::NotFoundError(absl::StrCat(
                  "the checkpoints of ", server,
                  " are not to be seen without --cluster_checkpoints"));
            }
            return RestoreLastIn(absl::StrCat(root, "/", server), to).status();
          },
          .state_has_changed = [this] { incarnation_.Change(NewIdentity()); },
          .save =
              [this] {
                if (checkpoints_ == nullptr) return absl::OkStatus();
                return checkpoints_->Save().status();
              }};
}

absl::Status Server::health() {
  RETURN_IF_ERROR(engine_.health());
  // While it shuts down, calls may take their time.
  return is_shut_down_ ? absl::OkStatus() : watched();
}

absl::Status Server::readiness() const {
  if (is_ready_) return placement_.readiness();
  const std::optional<RestoreProgress> restoring =
      checkpoints_ ? checkpoints_->restoring() : std::nullopt;
  if (!restoring) return absl::UnavailableError("not ready");
  return absl::UnavailableError(
      absl::StrCat("restoring checkpoint ", restoring->name, ", ",
                   restoring->bytes, " of ", restoring->total_bytes, " bytes"));
}

std::string Server::Remark() const {
  const std::string options = files_->wrong_options();
  return options.empty()
             ? ""
             : absl::StrCat("files: ", options,
                            ": wrong, as the log says; what was there before "
                            "counts\n");
}

std::vector<Reading> Server::ReadingsOf() {
  std::vector<Reading> readings = OtherReadings();
  std::vector<std::vector<Reading>> others = {
      CheckpointReadings(options_.checkpoint_interval,
                         [this] { return checkpoint_counts(); }),
      files_->FileReadings(), ProcessReadings()};
  if (options_.cluster) {
    others.push_back(
        ClusterPartReadings(&placement_, [this] { return cluster_part(); }));
    others.push_back(mirroring_.MirrorReadings());
  }
  for (std::vector<Reading>& more : others) {
    std::move(more.begin(), more.end(), std::back_inserter(readings));
  }
  return readings;
}

std::vector<Reading> Server::OtherReadings() {
  using prometheus::MetricType;
  std::vector<Reading> readings = {
      {"tensorkv_build_info",
       "Always 1; the version is in the label.",
       MetricType::Gauge,
       [] { return 1; },
       {{"version", kVersion}}},
      {"tensorkv_budget_bytes", "Bound on what is kept in the host's memory.",
       MetricType::Gauge,
       [this] { return engine_.budgets().host()->limit_bytes(); }},
      {"tensorkv_used_bytes", "What is kept in the host's memory.",
       MetricType::Gauge,
       [this] { return engine_.budgets().host()->used_bytes(); }},
      {"tensorkv_delta_bytes",
       "What deltas take that can be encoded again, beside the budget.",
       MetricType::Gauge,
       [this] { return engine_.budgets().deltas()->used_bytes(); }},
      {"tensorkv_deltas_encoded_total", "Deltas encoded for readers.",
       MetricType::Counter, [this] { return engine_.num_deltas_encoded(); }},
      {"tensorkv_connections_open", "Connections of clients.",
       MetricType::Gauge,
       [this] { return acceptor() ? acceptor()->num_open() : 0; }},
      {"tensorkv_connections_accepted_total", "Connections taken.",
       MetricType::Counter,
       [this] { return acceptor() ? acceptor()->num_accepted() : 0; }},
      {"tensorkv_connections_refused_total",
       "Connections closed at once: no room, an address in debt, or a user "
       "whom unix_users of the policy does not name.",
       MetricType::Counter,
       [this] { return acceptor() ? acceptor()->num_refused() : 0; }},
      {"tensorkv_connections_cut_total",
       "Connections of peers that sent what no client would.",
       MetricType::Counter, [this] { return filter_counts().num_cut; }},
      {"tensorkv_unfinished_bytes",
       "What messages take of which a part has come.", MetricType::Gauge,
       [this] { return filter_counts().unfinished_bytes; }},
      {"tensorkv_streams_open", "Streams of tensors under way.",
       MetricType::Gauge, [this] { return open_streams_.num_open(); }},
      {"tensorkv_tickets_open", "Tickets whose values have not been sent yet.",
       MetricType::Gauge, [this] { return tickets_.num_open(); }},
      {"tensorkv_tickets_expired_total",
       "Tickets that ended because nobody came for their values in time.",
       MetricType::Counter, [this] { return tickets_.num_expired(); }},
      {"tensorkv_uploads_waiting",
       "Streams that wait before memory is taken for their tensors.",
       MetricType::Gauge, [this] { return services_.num_uploads_waiting(); }},
      {"tensorkv_device_failed", "1 once a device has failed.",
       MetricType::Gauge, [this] { return engine_.health().ok() ? 0 : 1; }},
      {"tensorkv_stalled", "1 while a part of the server stands still.",
       MetricType::Gauge,
       [this] { return is_shut_down_ || watched().ok() ? 0 : 1; }},
  };
  for (const DeviceBudget& on : engine_.budgets().DeviceBudgets()) {
    readings.push_back({"tensorkv_device_budget_bytes",
                        "Bound on the tensors kept in a device's memory.",
                        MetricType::Gauge,
                        [bytes = on.budget_bytes] { return bytes; },
                        {{"device", on.device}}});
  }
  return readings;
}

absl::Status Server::StartHttp() {
  if (options_.metrics_listen.empty()) return absl::OkStatus();
  std::vector<const prometheus::Collectable*> collectables =
      engine_.collectables();
  collectables.push_back(&registry_);
  collectables.push_back(&readings_);
  HttpEndpointOptions endpoint = {.listen = options_.metrics_listen,
                                  .collectables = std::move(collectables),
                                  .health = [this] { return health(); },
                                  .readiness = [this] { return readiness(); },
                                  .remark = [this] { return Remark(); }};
  if (options_.metrics_tls) {
    endpoint.tls = [this] { return files_->certificates().current(); };
    endpoint.pages_need_certificate = options_.tls.needs_client_cert();
  }
  if (options_.status_page) {
    // They see all keys of this server, whoever asks.
    HandlerDependencies calls = HandlerDependenciesOf();
    calls.calls = &dispatch_of_page_;
    endpoint.pages = StatusPages(calls, &engine_.summaries());
  }
  absl::StatusOr<std::unique_ptr<HttpEndpoint>> http =
      HttpEndpoint::Create(std::move(endpoint));
  if (!http.ok()) return CannotListen(options_.metrics_listen, http.status());
  http_ = *std::move(http);
  return absl::OkStatus();
}

void Server::Shutdown(absl::Duration grace) {
  if (is_shut_down_.exchange(true)) return;
  const gpr_timespec end = After(grace);
  is_ready_ = false;
  health_.Shutdown();
  if (!mirroring_.Drain(grace / 2)) {
    LogEvent("mirrored rounds are left open: others may have closed them");
  }
  // Their rounds and versions cannot come any more: no new call is accepted.
  engine_.CancelWaits();
  mirroring_.Stop();
  if (grpc_server_ == nullptr) return;
  acceptor_->Stop();
  if (rpc_probe_ != nullptr) rpc_probe_->Stop();
  grpc_server_->Shutdown(end);
  if (cluster_part_ != nullptr) cluster_part_->Stop();
  snapshot_sweep_.Stop();
}

void Server::StopServing() {
  is_ready_ = false;
  health_.SetNotServing();
}

std::string Server::address() const {
  return WithPort(options_.listen, port());
}

std::string Server::metrics_address() const {
  return http_ == nullptr ? ""
                          : WithPort(options_.metrics_listen, metrics_port());
}

int Server::metrics_port() const {
  return http_ == nullptr ? 0 : http_->bound_port();
}

}  // namespace tensorkv
