#include "service/server/server.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "grpc/support/time.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "service/metrics/server_gauges.h"
#include "service/rpc/method.h"
#include "service/server/grpc_limits.h"
#include "service/server/listen_address.h"
#include "service/server/version.h"
#include "spdlog/spdlog.h"

namespace tensorkv {
namespace {

absl::Status CannotListen(const std::string& address) {
  const std::string reason = ListenFailure(address);
  return absl::UnavailableError(absl::StrCat(
      "cannot listen on ", address, reason.empty() ? "" : ": ", reason));
}

MessageLimits LimitsOf(const ServerOptions& options) {
  return {.max_message_bytes = options.max_message_bytes,
          .max_entries = options.max_entries};
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
  ASSIGN_OR_RETURN(OpenedDevices devices,
                   OpenDevices(options.device, options.num_threads));
  return Create(options, std::move(devices));
}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(
    const ServerOptions& options, OpenedDevices devices) {
  RETURN_IF_ERROR(CheckServerOptions(options));
  std::unique_ptr<Server> server(new Server(options, std::move(devices)));
  RETURN_IF_ERROR(server->StartGrpc());
  RETURN_IF_ERROR(server->StartHttp());
  server->health_.SetServing();
  server->is_ready_ = true;
  // From now on: a device that has failed by now is reported too.
  server->engine_.OnFailure([server =
                                 server.get()](const absl::Status& status) {
    spdlog::critical("not serving any more: {}", std::string(status.message()));
    server->StopServing();
  });
  return server;
}

Server::Server(const ServerOptions& options, OpenedDevices devices)
    : options_(options),
      // 0 would mean none.
      incarnation_(absl::Uniform<uint64_t>(absl::BitGen(), 1, UINT64_MAX),
                   [this] { return engine_.health(); }),
      start_unix_seconds_(absl::ToUnixSeconds(absl::Now())),
      why_not_cuda_(std::move(devices.why_not_cuda)),
      engine_(options, std::move(devices.devices), &registry_),
      call_metrics_(&registry_),
      striped_calls_(options.stream_timeout, &engine_.alarms()),
      open_streams_(options.max_open_streams),
      streams_({.session = {.store = &engine_.store(),
                            .staging = &engine_.staging(),
                            .striped_calls = &striped_calls_,
                            .limits = LimitsOf(options)},
                .open_streams = &open_streams_,
                .incarnation = &incarnation_,
                .stream_timeout = options.stream_timeout,
                .alarms = &engine_.alarms(),
                .observer = &call_metrics_}),
      handlers_({.store = &engine_.store(),
                 .namespaces = &engine_.namespaces(),
                 .membership = &engine_.membership(),
                 .staging = &engine_.staging(),
                 .describe_server = [this] { return Describe(); }},
                LimitsOf(options)),
      service_(&handlers_, &streams_, &call_metrics_),
      health_({std::string(kServiceName)}) {
  AddServerGauges(Describe(), &registry_);
}

Server::~Server() {
  Shutdown(absl::ZeroDuration());
  // The streams' alarms use what is destroyed before the engine.
  engine_.StopAlarms();
}

absl::Status Server::StartGrpc() {
  grpc::ServerBuilder builder;
  ApplyLimits(options_, &builder);
  SetReflection(options_.reflection, &builder);
  int bound_port = 0;
  builder.AddListeningPort(options_.listen, grpc::InsecureServerCredentials(),
                           &bound_port);
  builder.RegisterService(&service_);
  builder.RegisterService(&health_);
  builder.RegisterCallbackGenericService(&unimplemented_);
  grpc_server_ = builder.BuildAndStart();
  if (grpc_server_ == nullptr) return CannotListen(options_.listen);
  if (!absl::StartsWith(options_.listen, "unix")) port_ = bound_port;
  return absl::OkStatus();
}

absl::Status Server::StartHttp() {
  if (options_.metrics_listen.empty()) return absl::OkStatus();
  std::vector<const prometheus::Collectable*> collectables =
      engine_.collectables();
  collectables.push_back(&registry_);
  absl::StatusOr<std::unique_ptr<HttpEndpoint>> http =
      HttpEndpoint::Create({.listen = options_.metrics_listen,
                            .collectables = std::move(collectables),
                            .health = [this] { return engine_.health(); },
                            .is_ready = [this] { return is_ready_.load(); }});
  if (!http.ok()) return CannotListen(options_.metrics_listen);
  http_ = *std::move(http);
  return absl::OkStatus();
}

void Server::Shutdown(absl::Duration grace) {
  if (is_shut_down_.exchange(true)) return;
  is_ready_ = false;
  health_.Shutdown();
  // Their rounds and versions cannot come any more: no new call is accepted.
  engine_.CancelWaits();
  if (grpc_server_ != nullptr) grpc_server_->Shutdown(After(grace));
}

void Server::StopServing() {
  is_ready_ = false;
  health_.SetNotServing();
}

std::string Server::address() const { return WithPort(options_.listen, port_); }

std::string Server::metrics_address() const {
  return http_ == nullptr ? ""
                          : WithPort(options_.metrics_listen, metrics_port());
}

int Server::metrics_port() const {
  return http_ == nullptr ? 0 : http_->bound_port();
}

ServerStatus Server::Describe() const {
  return {.version = kVersion,
          .incarnation = incarnation_.id(),
          .start_unix_seconds = start_unix_seconds_,
          .devices = engine_.devices(),
          .budget_bytes = engine_.budgets().host()->limit_bytes(),
          .used_bytes = engine_.budgets().host()->used_bytes(),
          .max_message_bytes = options_.max_message_bytes,
          .max_entries = options_.max_entries,
          .device_budgets = engine_.budgets().DeviceBudgets()};
}

}  // namespace tensorkv
