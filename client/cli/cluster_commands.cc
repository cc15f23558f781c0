#include <algorithm>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/json_text.h"
#include "client/cli/metadata_text.h"

namespace tensorkv {
namespace {

// Asks the server itself what it has.
absl::Status Fill(Invocation& invocation, ClusterServerStatus& status) {
  ASSIGN_OR_RETURN(Client server, invocation.client_of(status.server.address));
  ASSIGN_OR_RETURN(const ServerStatus described, server.DescribeServer());
  ASSIGN_OR_RETURN(const std::vector<NamespaceStatus> namespaces,
                   server.ListNamespaces());
  uint64_t num_keys = 0;
  for (const NamespaceStatus& each : namespaces) num_keys += each.num_keys;
  status.num_keys = num_keys;
  status.used_bytes = described.used_bytes;
  return absl::OkStatus();
}

absl::Status RunStatus(Invocation& invocation) {
  ASSIGN_OR_RETURN(const DescribeClusterReply cluster,
                   invocation.client.DescribeCluster());
  const ClusterPlacement& placement = cluster.placement;
  if (placement.owners.empty()) {
    return absl::FailedPreconditionError("the server is in no cluster");
  }
  std::vector<ClusterServerStatus> servers;
  for (uint32_t i = 0; i < placement.servers.size(); ++i) {
    ClusterServerStatus status = {.server = placement.servers[i]};
    status.num_partitions =
        std::count(placement.owners.begin(), placement.owners.end(), i);
    // One that does not answer shows as such.
    if (status.server.is_live) Fill(invocation, status).IgnoreError();
    servers.push_back(std::move(status));
  }
  if (!invocation.flags.is_json()) {
    invocation.out << "cluster \"" << placement.cluster << "\", placement "
                   << placement.version << "\n"
                   << ClusterTable(servers);
    return absl::OkStatus();
  }
  for (const ClusterServerStatus& status : servers) {
    invocation.out << ClusterServerJson(status) << "\n";
  }
  return absl::OkStatus();
}

}  // namespace

void AddClusterCommands(CLI::App& app, Action& action) {
  CLI::App* const cluster =
      app.add_subcommand("cluster", "Servers that are one store");
  cluster->require_subcommand(1);
  cluster
      ->add_subcommand("status",
                       "List the servers of the cluster and what they have")
      ->callback([&action] { action = RunStatus; });
}

}  // namespace tensorkv
