#include "service/cluster/placement_changes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "service/cluster/placement_maker.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

absl::Status NoSuchServer(const std::string& name) {
  return absl::NotFoundError(
      absl::StrCat("the cluster has no server ", Quoted(name)));
}

// Errors: NotFound.
absl::Status Add(const std::string& name, const ClusterReading& reading,
                 std::vector<ClusterServer>& wanted) {
  if (FindServer(wanted, name) != nullptr) return absl::OkStatus();
  const ClusterServer* const server = FindServer(reading.servers, name);
  if (server == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "server ", Quoted(name), " has not registered: start it first"));
  }
  wanted.push_back(*server);
  return absl::OkStatus();
}

bool Remove(const std::string& name, std::vector<ClusterServer>& servers) {
  return std::erase_if(servers, [&](const ClusterServer& server) {
           return server.name == name;
         }) > 0;
}

// Returns whether a partition that `name` had is still to be restored.
bool IsMissed(const ClusterPlacement& placement, const std::string& name) {
  return absl::c_any_of(placement.lost, [&](const LostPartitions& lost) {
    return lost.server == name;
  });
}

// Errors: FailedPrecondition · NotFound.
absl::Status CheckLost(const std::string& name, const ClusterReading& reading) {
  if (reading.registrations.contains(name)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "server ", Quoted(name),
        " is live, or was until lately: have it removed, or end it first"));
  }
  const bool is_known =
      FindServer(reading.placement.servers, name) != nullptr ||
      FindServer(reading.wanted, name) != nullptr ||
      IsMissed(reading.placement, name);
  return is_known ? absl::OkStatus() : NoSuchServer(name);
}

// Returns the entry of what that server had.
LostPartitions& EntryOf(const std::string& server,
                        ClusterPlacement& placement) {
  const auto found =
      std::ranges::find(placement.lost, server, &LostPartitions::server);
  if (found != placement.lost.end()) return *found;
  placement.lost.push_back({.server = server});
  return placement.lost.back();
}

// The partitions of the servers `names` are those of the others that are to
// have them in the end. What one of them did not have itself is still to be
// restored from where it was before.
ClusterPlacement WithoutLost(
    const google::protobuf::RepeatedPtrField<std::string>& names,
    const ClusterReading& reading) {
  const std::vector<std::string> owners = OwnersWanted(reading);
  ClusterPlacement after = reading.placement;
  const std::set<uint32_t> missing = MissingIn(after);
  for (uint32_t i = 0; i < after.owners.size(); ++i) {
    const std::string& owner = OwnerName(reading.placement, i);
    if (!absl::c_linear_search(names, owner)) continue;
    if (!missing.contains(i)) EntryOf(owner, after).partitions.push_back(i);
    const auto next =
        std::ranges::find(after.servers, owners[i], &ClusterServer::name);
    after.owners[i] = static_cast<uint32_t>(next - after.servers.begin());
    if (next == after.servers.end()) {
      after.servers.push_back(*FindServer(reading.wanted, owners[i]));
    }
  }
  return WithoutLeavers(
      {.placement = std::move(after), .wanted = reading.wanted});
}

}  // namespace

const ClusterServer* FindServer(const std::vector<ClusterServer>& servers,
                                absl::string_view name) {
  const auto found = std::ranges::find(servers, name, &ClusterServer::name);
  return found == servers.end() ? nullptr : &*found;
}

const std::string& OwnerName(const ClusterPlacement& placement,
                             size_t partition) {
  return placement.servers[placement.owners[partition]].name;
}

bool OwnsAll(const ClusterPlacement& placement, absl::string_view server,
             const std::vector<uint32_t>& partitions) {
  return std::ranges::all_of(partitions, [&](uint32_t partition) {
    return partition < placement.owners.size() &&
           OwnerName(placement, partition) == server;
  });
}

std::set<uint32_t> MissingIn(const ClusterPlacement& placement) {
  std::set<uint32_t> missing;
  for (const LostPartitions& lost : placement.lost) {
    missing.insert(lost.partitions.begin(), lost.partitions.end());
  }
  return missing;
}

std::vector<std::string> OwnersWanted(const ClusterReading& reading) {
  std::vector<std::string> names;
  if (reading.placement.owners.empty() || reading.wanted.empty()) return names;
  const ClusterPlacement wanted =
      MakePlacement(reading.placement, reading.wanted, /*num_partitions=*/0);
  for (size_t i = 0; i < wanted.owners.size(); ++i) {
    names.push_back(OwnerName(wanted, i));
  }
  return names;
}

uint32_t NumToMove(const ClusterReading& reading) {
  const std::vector<std::string> wanted = OwnersWanted(reading);
  uint32_t num = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    num += wanted[i] == OwnerName(reading.placement, i) ? 0 : 1;
  }
  return num;
}

ClusterPlacement WithoutLeavers(const ClusterReading& reading) {
  const ClusterPlacement& before = reading.placement;
  std::vector<bool> stays(before.servers.size());
  for (const uint32_t owner : before.owners) stays[owner] = true;
  ClusterPlacement after = before;
  after.servers.clear();
  std::vector<uint32_t> index(before.servers.size());
  for (size_t i = 0; i < before.servers.size(); ++i) {
    if (!stays[i] &&
        FindServer(reading.wanted, before.servers[i].name) == nullptr) {
      continue;
    }
    index[i] = static_cast<uint32_t>(after.servers.size());
    after.servers.push_back(before.servers[i]);
  }
  if (after.servers.size() == before.servers.size()) return before;
  for (uint32_t& owner : after.owners) owner = index[owner];
  ++after.version;
  return after;
}

absl::StatusOr<ResizedCluster> Resized(const ResizeClusterRequest& request,
                                       const ClusterReading& reading) {
  ClusterReading next = reading;
  for (const std::string& name : request.add()) {
    RETURN_IF_ERROR(Add(name, reading, next.wanted));
  }
  for (const std::string& name : request.remove()) {
    const bool is_known =
        FindServer(reading.placement.servers, name) != nullptr ||
        FindServer(reading.servers, name) != nullptr;
    if (!Remove(name, next.wanted) && !is_known) return NoSuchServer(name);
  }
  for (const std::string& name : request.lost()) {
    RETURN_IF_ERROR(CheckLost(name, reading));
    Remove(name, next.wanted);
  }
  if (next.wanted.empty()) {
    return absl::InvalidArgumentError(
        "expected to leave a server that has the keys, got all: add one that "
        "has registered in the same call");
  }
  ResizedCluster resized = {.placement = reading.placement};
  if (!request.lost().empty()) {
    resized.placement = WithoutLost(request.lost(), next);
  }
  for (LostPartitions& lost : resized.placement.lost) {
    lost.given_up |=
        request.give_up() && absl::c_linear_search(request.lost(), lost.server);
  }
  if (!(resized.placement == reading.placement)) {
    resized.placement.version = reading.placement.version + 1;
  }
  resized.wanted = std::move(next.wanted);
  return resized;
}

ResizeClusterRequest TakeoverOf(const std::vector<std::string>& lost,
                                const ClusterReading& reading) {
  ResizeClusterRequest request;
  request.mutable_lost()->Add(lost.begin(), lost.end());
  const bool is_any_left =
      absl::c_any_of(reading.wanted, [&](const ClusterServer& server) {
        return !absl::c_linear_search(lost, server.name);
      });
  if (is_any_left) return request;
  for (const ClusterServer& server : reading.servers) {
    if (FindServer(reading.placement.servers, server.name) != nullptr) {
      request.add_add(server.name);
    }
  }
  if (!request.add().empty()) return request;
  for (const ClusterServer& server : reading.servers) {
    request.add_add(server.name);
  }
  return request;
}

ClusterPlacement WithRestored(ClusterPlacement placement,
                              const std::vector<uint32_t>& partitions) {
  for (LostPartitions& lost : placement.lost) {
    std::erase_if(lost.partitions, [&](uint32_t partition) {
      return absl::c_linear_search(partitions, partition);
    });
  }
  std::erase_if(placement.lost, [](const LostPartitions& lost) {
    return lost.partitions.empty();
  });
  ++placement.version;
  return placement;
}

}  // namespace tensorkv
