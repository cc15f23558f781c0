#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "contract/proto_codec.h"

namespace tensorkv {
namespace {

ClusterServer ServerOf(const v1::ClusterServer& proto) {
  return {.name = proto.name(),
          .address = proto.address(),
          .weight = proto.weight(),
          .live = proto.live()};
}

}  // namespace

void ToProto(const ClusterServer& server, v1::ClusterServer* proto) {
  proto->set_name(server.name);
  proto->set_address(server.address);
  proto->set_weight(server.weight);
  proto->set_live(server.live);
}

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
    ToProto(server, proto->add_servers());
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

}  // namespace tensorkv
