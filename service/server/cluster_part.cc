#include "service/server/cluster_part.h"

#include <algorithm>
#include <utility>

#include "service/cluster/cluster_records.h"

namespace tensorkv {
namespace {

ClusterOptions OptionsOf(const ServerOptions& options,
                         const std::string& address) {
  ClusterOptions cluster = *options.cluster;
  if (cluster.address.empty()) cluster.address = address;
  return cluster;
}

absl::Duration CallTimeout(const ClusterOptions& options) {
  return std::max(options.lease, absl::Seconds(30));
}

}  // namespace

absl::Status CheckEtcdAccess(const ServerOptions& options, Channels* etcd) {
  ClusterRecords records(
      *options.cluster, [](const std::string&) {}, etcd);
  const absl::Status status = records.CheckAccess();
  return absl::IsFailedPrecondition(status) ? status : absl::OkStatus();
}

ClusterPart::ClusterPart(const ServerOptions& options,
                         const std::string& address, Environment environment)
    : options_(OptionsOf(options, address)),
      member_(options_, environment.etcd, environment.placement,
              environment.listener),
      moves_{.server_name = options_.server_name,
             .store = environment.store,
             .known = environment.placement,
             .own_lease = [this] { return member_.lease(); }},
      receiver_(
          options_, moves_,
          ClusterRecords(options_, environment.listener.log, environment.etcd)),
      resizer_(
          options_, environment.etcd, moves_, &receiver_,
          MakeCallPeer(std::move(environment.connect), CallTimeout(options_)),
          std::move(environment.checkpoints), environment.listener.log) {}

void ClusterPart::Stop() {
  resizer_.Stop();
  member_.Stop();
}

std::vector<Reading> ClusterPartReadings(
    const KnownPlacement* placement, std::function<const ClusterPart*()> part) {
  using prometheus::MetricType;
  const auto counts = [part] {
    return part() == nullptr ? MoveCounts() : part()->counts();
  };
  return {
      {"tensorkv_cluster_in_touch",
       "1 while the server's registration at etcd is renewed.",
       MetricType::Gauge,
       [part] { return part() != nullptr && part()->is_in_touch(); }},
      {"tensorkv_cluster_placement_version",
       "The placement that the server goes by; 0 if it knows none.",
       MetricType::Gauge,
       [placement] {
         const auto view = placement->view();
         return view == nullptr ? 0 : view->placement().version;
       }},
      {"tensorkv_cluster_partitions", "The partitions of this server.",
       MetricType::Gauge,
       [placement] { return placement->num_own_partitions(); }},
      {"tensorkv_cluster_partitions_to_move",
       "Those of this server that are to be another one's.", MetricType::Gauge,
       [counts] { return counts().partitions_to_move; }},
      {"tensorkv_cluster_partitions_to_restore",
       "Those of this server that a lost one had, and that are not restored "
       "yet: calls about their keys wait.",
       MetricType::Gauge, [counts] { return counts().partitions_to_restore; }},
      {"tensorkv_cluster_moves_total",
       "Moves of partitions from this server to another one.",
       MetricType::Counter, [counts] { return counts().moves_succeeded; }},
      {"tensorkv_cluster_moves_failed_total",
       "Moves of partitions that have come to nothing, and are made again.",
       MetricType::Counter, [counts] { return counts().moves_failed; }},
      {"tensorkv_cluster_partitions_moved_total",
       "Partitions that this server has given to others.", MetricType::Counter,
       [counts] { return counts().partitions_moved; }},
      {"tensorkv_cluster_moved_bytes_total",
       "Bytes of tensors that this server has sent to others.",
       MetricType::Counter, [counts] { return counts().bytes_sent; }},
      {"tensorkv_cluster_moved_bytes_fenced_total",
       "Those of the former that were sent while their keys took no changes.",
       MetricType::Counter, [counts] { return counts().bytes_sent_fenced; }},
      {"tensorkv_cluster_move_unsettled",
       "1 while etcd does not tell whose the partitions of a move are: calls "
       "about them wait.",
       MetricType::Gauge, [counts] { return counts().moves_unsettled; }},
  };
}

}  // namespace tensorkv
