#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/json_text.h"
#include "client/cli/metadata_text.h"
#include "client/cli/plain_text.h"

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
    for (const LostPartitions& lost : placement.lost) {
      status.num_to_restore += std::ranges::count_if(
          lost.partitions,
          [&](uint32_t partition) { return placement.owners[partition] == i; });
    }
    // One that does not answer shows as such.
    if (status.server.is_live) Fill(invocation, status).IgnoreError();
    servers.push_back(std::move(status));
  }
  invocation.Print(
      servers, ClusterServerJson,
      absl::StrCat("cluster \"", PlainText(placement.cluster), "\", placement ",
                   placement.version, "\n",
                   ClusterTable(servers, invocation.flags.columns())));
  return absl::OkStatus();
}

absl::Status RunResize(const ResizeClusterRequest& request,
                       Invocation& invocation) {
  ASSIGN_OR_RETURN(const ResizeClusterReply reply,
                   invocation.client.ResizeCluster(request));
  if (invocation.flags.is_json()) {
    invocation.out << ResizeJson(reply) << "\n";
    return absl::OkStatus();
  }
  std::vector<std::string> names;
  for (const ClusterServer& server : reply.servers) {
    names.push_back(server.name);
  }
  invocation.out << "the keys are to be on "
                 << PlainText(absl::StrJoin(names, ", "))
                 << "; partitions to move: " << reply.partitions_to_move
                 << ", to restore: " << reply.partitions_to_restore << "\n";
  return absl::OkStatus();
}

void AddResize(CLI::App& cluster, Action& action) {
  CLI::App* const resize = cluster.add_subcommand(
      "resize",
      "Change which servers have the keys, or tell how many partitions are "
      "still to move");
  const auto request = std::make_shared<ResizeClusterRequest>();
  resize
      ->add_option("--add", request->add,
                   "Servers, by name, that are to have their share")
      ->delimiter(',');
  resize
      ->add_option("--remove", request->remove,
                   "Servers that are to give all they have to others")
      ->delimiter(',');
  resize
      ->add_option("--lost", request->lost,
                   "Servers that are gone for good: the others restore what "
                   "they had from their last checkpoints")
      ->delimiter(',');
  resize->add_flag("--give_up", request->give_up,
                   "What the lost servers had, and is not restored yet, is "
                   "given up");
  OnRun(*resize, action, request, RunResize);
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
  AddResize(*cluster, action);
}

}  // namespace tensorkv
