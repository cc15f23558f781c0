#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"

namespace tensorkv {

absl::StatusOr<ClusterPlacement> FromProto(const v1::ClusterPlacement& proto) {
  ClusterPlacement placement;
  placement.cluster = proto.cluster();
  placement.version = proto.version();
  for (const v1::ClusterServer& server : proto.servers()) {
    placement.servers.push_back({.name = server.name(),
                                 .address = server.address(),
                                 .weight = server.weight(),
                                 .is_live = server.is_live()});
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
  return placement;
}

void ToProto(const ClusterPlacement& placement, v1::ClusterPlacement* proto) {
  proto->set_cluster(placement.cluster);
  proto->set_version(placement.version);
  for (const ClusterServer& server : placement.servers) {
    v1::ClusterServer* const out = proto->add_servers();
    out->set_name(server.name);
    out->set_address(server.address);
    out->set_weight(server.weight);
    out->set_is_live(server.is_live);
  }
  proto->mutable_owners()->Add(placement.owners.begin(),
                               placement.owners.end());
  proto->set_split_bytes(placement.split_bytes);
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

}  // namespace tensorkv
