#include "service/server/mirroring.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cores.h"
#include "spdlog/spdlog.h"

namespace tensorkv {
namespace {

// More would take them from updates.
int NumThreads() { return std::min(NumCores(), 4); }

void LogNotOnGpus(const absl::Status& why) {
  spdlog::warn("mirrored sums go through the host: {}",
               std::string(why.message()));
}

MirrorExchange::Options ExchangeOptions(const ServerOptions& options) {
  MirrorExchange::Options exchange = {
      .awaits_group = options.cluster.has_value(),
      .not_on_devices = LogNotOnGpus};
  if (options.cluster) exchange.times.patience = options.cluster->lease / 2;
  return exchange;
}

bool IsNcclNamed(const ServerOptions& options) {
  return options.nccl != "auto";
}

absl::StatusOr<std::unique_ptr<DeviceLink>> OpenLinkOfGpu(
    const ServerOptions& options, const OpenedDevice& device) {
  if (!device.open_link) {
    return absl::FailedPreconditionError("expected a GPU");
  }
  if (IsNcclNamed(options)) return device.open_link(options.nccl);
  if (options.tls.is_on()) {
    return absl::FailedPreconditionError(
        "NCCL does not encrypt: with TLS it is to be named");
  }
  return device.open_link("libnccl.so.2");
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceLink>> OpenMirrorLink(
    const ServerOptions& options, const OpenedDevice& device) {
  const bool is_named = IsNcclNamed(options);
  if (options.nccl == "off" || (!is_named && !options.cluster)) return nullptr;
  absl::StatusOr<std::unique_ptr<DeviceLink>> link =
      OpenLinkOfGpu(options, device);
  if (link.ok()) return link;
  if (is_named) {
    return absl::Status(
        link.status().code(),
        absl::StrCat("--nccl=", options.nccl, ": ", link.status().message()));
  }
  // Servers on the host have no choice.
  if (device.open_link) LogNotOnGpus(link.status());
  return nullptr;
}

Mirroring::Mirroring(const ServerOptions& options,
                     std::unique_ptr<DeviceLink> link,
                     GrpcMirrorPeers::Connect connect)
    : backend_(NumThreads()),
      link_(std::move(link)),
      exchange_(ExchangeOptions(options), &alarms_, &backend_, link_.get()),
      peers_(std::move(connect),
             [this](const std::string& server) { return AddressOf(server); }) {}

std::vector<Reading> Mirroring::MirrorReadings() const {
  const MirrorCounts& counts = exchange_.counts();
  const auto counter = [](std::string name, std::string help,
                          const std::atomic<uint64_t>& count,
                          double unit = 1) -> Reading {
    return {absl::StrCat("tensorkv_cluster_mirror_", name), std::move(help),
            prometheus::MetricType::Counter,
            [&count, unit] { return static_cast<double>(count) * unit; }};
  };
  return {
      counter("rounds_total",
              "Rounds of mirrored namespaces whose sum this server has got.",
              counts.rounds_summed),
      counter("rounds_failed_total",
              "Rounds of mirrored namespaces that failed for want of a sum.",
              counts.rounds_failed),
      counter("attempts_total",
              "Exchanges with the servers that mirror, each of many rounds.",
              counts.attempts_whole),
      counter("attempts_failed_total",
              "Exchanges that were begun and have brought no sums.",
              counts.attempts_failed),
      counter("attempts_on_gpus_total",
              "Those exchanges that went from GPU to GPU, by NCCL.",
              counts.attempts_on_devices),
      counter("seconds_total", "How long exchanges took that brought sums.",
              counts.nanoseconds, 1e-9),
      counter("sent_bytes_total",
              "Bytes of tensors that these have sent to other servers.",
              counts.sent_bytes),
      counter("received_bytes_total",
              "Bytes of tensors that they have got from them.",
              counts.received_bytes),
  };
}

void Mirroring::SetPlacement(const KnownPlacement::View& view) {
  const ClusterPlacement& placement = view.placement();
  std::vector<std::string> names;
  for (const ClusterServer& server : placement.servers) {
    names.push_back(server.name);
  }
  MutexLock placing(&placing_);
  {
    MutexLock lock(&mutex_);
    if (placement.version < placement_.version) return;
    placement_ = placement;
  }
  const auto own = std::ranges::find(names, view.server_name());
  if (own == names.end()) return;
  exchange_.SetGroup(
      names, static_cast<uint32_t>(own - names.begin()),
      [this](const std::string& server) { return peers_.PeerOf(server); });
}

absl::StatusOr<std::string> Mirroring::AddressOf(
    const std::string& server) const {
  MutexLock lock(&mutex_);
  for (const ClusterServer& each : placement_.servers) {
    if (each.name == server) return each.address;
  }
  return absl::UnavailableError(
      absl::StrCat("server ", server, ": the placement has it no more"));
}

void Mirroring::Stop() {
  exchange_.Stop();
  peers_.Stop();
}

}  // namespace tensorkv
