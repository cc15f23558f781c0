#include "service/cluster/known_placement.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

std::optional<uint32_t> IndexOf(const std::string& server_name,
                                const ClusterPlacement& placement) {
  const auto found =
      std::ranges::find(placement.servers, server_name, &ClusterServer::name);
  if (found == placement.servers.end()) return std::nullopt;
  return static_cast<uint32_t>(found - placement.servers.begin());
}

std::map<uint32_t, std::string> MissingAt(std::optional<uint32_t> server,
                                          const ClusterPlacement& placement) {
  std::map<uint32_t, std::string> missing;
  for (const LostPartitions& lost : placement.lost) {
    for (const uint32_t partition : lost.partitions) {
      if (placement.owners[partition] == server) {
        missing[partition] = lost.server;
      }
    }
  }
  return missing;
}

absl::Status NotRestored(absl::string_view key, const std::string& server) {
  return WithReason(absl::UnavailableError(absl::StrCat(
                        "key ", Quoted(key), ": is not restored yet: server ",
                        Quoted(server), ", which had it, is lost")),
                    Reason::kKeyNotRestored,
                    {{"key", key}, {"server", server}});
}

absl::Status NoPlacement() {
  return absl::UnavailableError(
      "no placement of the cluster is known, or for too long none that holds: "
      "not enough of its servers have registered, or etcd cannot be reached");
}

absl::Status CheckOwners(const ClusterPlacement& placement) {
  if (placement.owners.empty()) {
    return absl::InvalidArgumentError("owners: expected at least one");
  }
  for (const uint32_t owner : placement.owners) {
    if (owner < placement.servers.size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("owners: expected below ", placement.servers.size(),
                     ", the number of servers, got ", owner));
  }
  for (const LostPartitions& lost : placement.lost) {
    for (const uint32_t partition : lost.partitions) {
      if (partition < placement.owners.size()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("lost: expected below ", placement.owners.size(),
                       ", the number of partitions, got ", partition));
    }
  }
  return absl::OkStatus();
}

}  // namespace

KnownPlacement::View::View(std::string server_name, ClusterPlacement placement)
    : server_name_(std::move(server_name)),
      placement_(std::move(placement)),
      own_index_(IndexOf(server_name_, placement_)),
      missing_(MissingAt(own_index_, placement_)) {}

absl::Status KnownPlacement::View::Check(absl::string_view name_space,
                                         absl::string_view key) const {
  if (placement_.owners.empty()) return NoPlacement();
  const uint32_t partition = PartitionOf(
      name_space, key, static_cast<uint32_t>(placement_.owners.size()));
  const uint32_t owner = placement_.owners[partition];
  if (owner != own_index_) {
    return NotOwned(absl::StrCat("key ", Quoted(key)), key, owner);
  }
  if (missing_.empty()) return absl::OkStatus();
  const auto missing = missing_.find(partition);
  if (missing == missing_.end()) return absl::OkStatus();
  return NotRestored(key, missing->second);
}

absl::Status KnownPlacement::View::CheckWhole() const {
  if (placement_.owners.empty()) return NoPlacement();
  if (missing_.empty()) return absl::OkStatus();
  const std::string& server = missing_.begin()->second;
  return WithReason(absl::UnavailableError(absl::StrCat(
                        "server ", server_name_, ": ", missing_.size(),
                        " partitions are not restored yet, of server ",
                        Quoted(server), ", which is lost")),
                    Reason::kKeyNotRestored, {{"server", server}});
}

absl::Status KnownPlacement::View::CheckRank(
    std::optional<uint32_t> rank) const {
  if (placement_.owners.empty()) return NoPlacement();
  if (!rank) return absl::OkStatus();
  const auto owner = static_cast<uint32_t>(*rank % placement_.servers.size());
  if (owner == own_index_) return absl::OkStatus();
  return NotOwned(absl::StrCat("worker ", *rank), /*key=*/"", owner);
}

absl::Status KnownPlacement::View::NotOwned(absl::string_view subject,
                                            absl::string_view key,
                                            uint32_t owner) const {
  const ClusterServer& server = placement_.servers[owner];
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        subject, ": server ", server.name, " at ",
                        server.address, " owns it by placement ",
                        placement_.version, ", not ", server_name_)),
                    Reason::kWrongServer,
                    {{"key", key},
                     {"address", server.address},
                     {"placement_version", placement_.version}});
}

uint64_t KnownPlacement::View::num_own_partitions() const {
  if (!own_index_) return 0;
  return std::ranges::count(placement_.owners, *own_index_);
}

PartitionSet KnownPlacement::View::own_partitions() const {
  const std::vector<uint32_t>& owners = placement_.owners;
  PartitionSet own = {.num_partitions = static_cast<uint32_t>(owners.size()),
                      .placement_version = placement_.version};
  for (uint32_t i = 0; own_index_ && i < owners.size(); ++i) {
    if (owners[i] == *own_index_ && !missing_.contains(i)) {
      own.partitions.push_back(i);
    }
  }
  return own;
}

KnownPlacement::KnownPlacement(std::string server_name, Listener listener)
    : listener_(std::move(listener)), is_in_cluster_(!server_name.empty()) {
  if (server_name.empty()) return;
  view_ =
      std::make_shared<const View>(std::move(server_name), ClusterPlacement());
  ended_view_ = view_;
}

absl::Status KnownPlacement::Set(ClusterPlacement placement,
                                 std::string server_name) {
  RETURN_IF_ERROR(CheckOwners(placement));
  MutexLock setting(&setting_);
  {
    MutexLock lock(&mutex_);
    if (view_ != nullptr && placement.version < view_->placement().version) {
      return absl::OkStatus();
    }
    if (has_lost_name_) server_name.clear();
  }
  const auto view = std::make_shared<const View>(std::move(server_name),
                                                 std::move(placement));
  if (listener_) listener_(*view);
  MutexLock lock(&mutex_);
  view_ = view;
  is_in_cluster_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

void KnownPlacement::LoseName() {
  MutexLock setting(&setting_);
  MutexLock lock(&mutex_);
  has_lost_name_ = true;
  if (view_ == nullptr) return;
  view_ = std::make_shared<const View>(/*server_name=*/"", view_->placement());
}

std::shared_ptr<const KnownPlacement::View> KnownPlacement::view() const {
  if (!is_in_cluster()) return nullptr;
  const auto end = own_until_.load();
  const bool has_ended = end != std::chrono::steady_clock::time_point::max() &&
                         std::chrono::steady_clock::now() >= end;
  MutexLock lock(&mutex_);
  return has_ended && ended_view_ != nullptr ? ended_view_ : view_;
}

absl::Status KnownPlacement::readiness() const {
  const auto known = view();
  if (known != nullptr && known->placement().owners.empty()) {
    return NoPlacement();
  }
  return absl::OkStatus();
}

uint64_t KnownPlacement::num_own_partitions() const {
  const auto known = view();
  return known == nullptr ? 0 : known->num_own_partitions();
}

ClusterPlacement KnownPlacement::last_placement() const {
  MutexLock lock(&mutex_);
  return view_ == nullptr ? ClusterPlacement() : view_->placement();
}

DescribeClusterReply KnownPlacement::Describe() const {
  const auto known = view();
  DescribeClusterReply reply;
  v1::ClusterPlacement& placement = *reply.mutable_placement();
  if (known == nullptr) return reply;
  reply.set_server_name(known->server_name());
  ToProto(known->placement(), &placement);
  return reply;
}

}  // namespace tensorkv
