#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/internal/transfer/message_bytes.h"
#include "contract/proto_codec.h"
#include "nlohmann/json.hpp"

namespace tensorkv {
namespace {

struct Holdings {
  uint64_t num_keys = 0;
  uint64_t used_bytes = 0;
};

// Asks the server itself what it has.
absl::StatusOr<Holdings> Ask(const v1::ClusterServer& server,
                             Invocation& invocation) {
  if (!server.live()) return absl::UnavailableError("it is not live");
  ASSIGN_OR_RETURN(Client client, invocation.client_of(server.address()));
  ASSIGN_OR_RETURN(const ServerStatus status, client.DescribeServer());
  ASSIGN_OR_RETURN(const std::vector<NamespaceStatus> namespaces,
                   client.ListNamespaces());
  Holdings holdings = {.used_bytes = status.used_bytes()};
  for (const NamespaceStatus& each : namespaces) {
    holdings.num_keys += each.num_keys();
  }
  return holdings;
}

// Counts the partitions of server number `owner` that it does not have yet.
int64_t NumToRestore(const ClusterPlacement& placement, uint32_t owner) {
  int64_t count = 0;
  for (const LostPartitions& lost : placement.lost) {
    count += std::ranges::count_if(lost.partitions, [&](uint32_t partition) {
      return placement.owners[partition] == owner;
    });
  }
  return count;
}

absl::Status RunStatus(Invocation& invocation) {
  ASSIGN_OR_RETURN(const DescribeClusterReply cluster,
                   invocation.client.DescribeCluster());
  ASSIGN_OR_RETURN(const ClusterPlacement placement,
                   CheckReply(FromProto(cluster.placement())));
  if (placement.owners.empty()) {
    return absl::FailedPreconditionError("the server is in no cluster");
  }
  std::vector<std::vector<std::string>> rows = {{"name", "address", "live",
                                                 "partitions", "to_restore",
                                                 "num_keys", "used_bytes"}};
  for (uint32_t i = 0; i < placement.servers.size(); ++i) {
    const v1::ClusterServer& server =
        cluster.placement().servers(static_cast<int>(i));
    const auto num_partitions = std::ranges::count(placement.owners, i);
    const int64_t num_to_restore = NumToRestore(placement, i);
    // One that does not answer shows as such.
    const absl::StatusOr<Holdings> holdings = Ask(server, invocation);
    rows.push_back({server.name(), server.address(),
                    server.live() ? "true" : "false",
                    absl::StrCat(num_partitions), absl::StrCat(num_to_restore),
                    holdings.ok() ? absl::StrCat(holdings->num_keys) : "?",
                    holdings.ok() ? ByteText(holdings->used_bytes) : "?"});
    if (!invocation.flags.is_json()) continue;
    auto json = nlohmann::ordered_json::parse(MessageJson(server));
    json["partitions"] = num_partitions;
    json["to_restore"] = num_to_restore;
    if (holdings.ok()) {
      json["num_keys"] = absl::StrCat(holdings->num_keys);
      json["used_bytes"] = absl::StrCat(holdings->used_bytes);
    }
    invocation.out << json.dump() << "\n";
  }
  if (!invocation.flags.is_json()) invocation.out << TableText(std::move(rows));
  return absl::OkStatus();
}

struct ResizeFlags {
  std::vector<std::string> add;
  std::vector<std::string> remove;
  std::vector<std::string> lost;
  bool give_up = false;
};

absl::Status RunResize(const ResizeFlags& flags, Invocation& invocation) {
  ResizeClusterRequest request;
  request.mutable_add()->Add(flags.add.begin(), flags.add.end());
  request.mutable_remove()->Add(flags.remove.begin(), flags.remove.end());
  request.mutable_lost()->Add(flags.lost.begin(), flags.lost.end());
  request.set_give_up(flags.give_up);
  ASSIGN_OR_RETURN(const ResizeClusterReply reply,
                   invocation.client.ResizeCluster(request));
  invocation.Print(reply);
  return absl::OkStatus();
}

void AddResize(CLI::App& cluster, Action& action) {
  CLI::App* const resize = cluster.add_subcommand(
      "resize",
      "Change which servers have the keys, or tell how many partitions are "
      "still to move");
  const auto flags = std::make_shared<ResizeFlags>();
  resize
      ->add_option("--add", flags->add,
                   "Servers, by name, that are to have their share")
      ->delimiter(',');
  resize
      ->add_option("--remove", flags->remove,
                   "Servers that are to give all they have to others")
      ->delimiter(',');
  resize
      ->add_option("--lost", flags->lost,
                   "Servers that are gone for good: the others restore what "
                   "they had from their last checkpoints")
      ->delimiter(',');
  resize->add_flag("--give_up", flags->give_up,
                   "What the lost servers had, and is not restored yet, is "
                   "given up");
  OnRun(*resize, action, flags, RunResize);
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
