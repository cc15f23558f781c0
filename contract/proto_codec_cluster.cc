#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"

namespace tensorkv {
namespace {

ClusterServer ServerOf(const v1::ClusterServer& proto) {
  return {.name = proto.name(),
          .address = proto.address(),
          .weight = proto.weight(),
          .live = proto.live()};
}

void ServerToProto(const ClusterServer& server, v1::ClusterServer* proto) {
  proto->set_name(server.name);
  proto->set_address(server.address);
  proto->set_weight(server.weight);
  proto->set_live(server.live);
}

}  // namespace

absl::StatusOr<ClusterPlacement> FromProto(const v1::ClusterPlacement& proto) {
  ClusterPlacement placement;
  placement.cluster = proto.cluster();
  placement.version = proto.version();
  for (const v1::ClusterServer& server : proto.servers()) {
    placement.servers.push_back(ServerOf(server));
  }
  for (const uint32_t owner : proto.owners()) {
    if (owner >= placement.servers.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("owners: expected below ", placement.servers.size(),
                       ", the number of servers, got ", owner));
    }
  }
  placement.owners = {proto.owners().begin(), proto.owners().end()};
  placement.split_bytes = proto.split_bytes();
  for (const v1::LostPartitions& lost : proto.lost()) {
    for (const uint32_t partition : lost.partitions()) {
      if (partition >= placement.owners.size()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "lost: expected partitions below ", placement.owners.size(),
            ", the number of owners, got ", partition));
      }
    }
    placement.lost.push_back(
        {.server = lost.server(),
         .partitions = {lost.partitions().begin(), lost.partitions().end()},
         .given_up = lost.given_up()});
  }
  return placement;
}

void ToProto(const ClusterPlacement& placement, v1::ClusterPlacement* proto) {
  proto->set_cluster(placement.cluster);
  proto->set_version(placement.version);
  for (const ClusterServer& server : placement.servers) {
    ServerToProto(server, proto->add_servers());
  }
  proto->mutable_owners()->Add(placement.owners.begin(),
                               placement.owners.end());
  proto->set_split_bytes(placement.split_bytes);
  for (const LostPartitions& lost : placement.lost) {
    v1::LostPartitions& each = *proto->add_lost();
    each.set_server(lost.server);
    each.mutable_partitions()->Add(lost.partitions.begin(),
                                   lost.partitions.end());
    each.set_given_up(lost.given_up);
  }
}

absl::StatusOr<DescribeClusterReply> FromProto(
    const v1::DescribeClusterResponse& proto) {
  DescribeClusterReply reply;
  reply.server_name = proto.server_name();
  ASSIGN_OR_RETURN(reply.placement, FromProto(proto.placement()));
  return reply;
}

void ToProto(const DescribeClusterReply& reply,
             v1::DescribeClusterResponse* proto) {
  proto->set_server_name(reply.server_name);
  ToProto(reply.placement, proto->mutable_placement());
}

absl::StatusOr<ResizeClusterRequest> FromProto(
    const v1::ResizeClusterRequest& proto) {
  return ResizeClusterRequest{
      .add = {proto.add().begin(), proto.add().end()},
      .remove = {proto.remove().begin(), proto.remove().end()},
      .lost = {proto.lost().begin(), proto.lost().end()},
      .give_up = proto.give_up()};
}

void ToProto(const ResizeClusterRequest& request,
             v1::ResizeClusterRequest* proto) {
  for (const std::string& name : request.add) proto->add_add(name);
  for (const std::string& name : request.remove) proto->add_remove(name);
  for (const std::string& name : request.lost) proto->add_lost(name);
  proto->set_give_up(request.give_up);
}

absl::StatusOr<ResizeClusterReply> FromProto(
    const v1::ResizeClusterResponse& proto) {
  ResizeClusterReply reply;
  for (const v1::ClusterServer& server : proto.servers()) {
    reply.servers.push_back(ServerOf(server));
  }
  reply.partitions_to_move = proto.partitions_to_move();
  reply.partitions_to_restore = proto.partitions_to_restore();
  return reply;
}

void ToProto(const ResizeClusterReply& reply,
             v1::ResizeClusterResponse* proto) {
  for (const ClusterServer& server : reply.servers) {
    ServerToProto(server, proto->add_servers());
  }
  proto->set_partitions_to_move(reply.partitions_to_move);
  proto->set_partitions_to_restore(reply.partitions_to_restore);
}

}  // namespace tensorkv
