#include "client/cluster/placement_source.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/internal/steady_now.h"

namespace tensorkv {
namespace {

// Where one server does not answer, the next one is to have a chance.
constexpr absl::Duration kLongestQuestion = absl::Seconds(2);

absl::Status Check(const ClusterPlacement& placement) {
  for (const uint32_t owner : placement.owners) {
    if (owner < placement.servers.size()) continue;
    return absl::InternalError(absl::StrCat(
        "placement ", placement.version, ": expected owners below ",
        placement.servers.size(), ", got ", owner));
  }
  return absl::OkStatus();
}

ClusterPlacement PlacementOfOne(const std::string& address) {
  ClusterPlacement placement;
  placement.servers = {{.address = address, .is_live = true}};
  placement.owners = {0};
  return placement;
}

}  // namespace

absl::StatusOr<PlacementPtr> PlacementSource::Current(
    const CallOptions& options) {
  if (PlacementPtr known = Known()) return known;
  return Refresh(0, options);
}

absl::StatusOr<PlacementPtr> PlacementSource::Refresh(
    uint64_t version, const CallOptions& options) {
  RETURN_IF_ERROR(AskInTurn(version, options).status());
  return Known();
}

absl::StatusOr<DescribeClusterReply> PlacementSource::AskInTurn(
    uint64_t version, const CallOptions& options) {
  const absl::Duration end = SteadyNow() + options.timeout;
  absl::StatusOr<DescribeClusterReply> last = absl::DeadlineExceededError(
      "no time is left to ask which server owns what");
  for (const std::string& address : Addresses()) {
    const absl::Duration time_left = end - SteadyNow();
    if (time_left <= absl::ZeroDuration()) break;
    absl::StatusOr<DescribeClusterReply> answer =
        Ask(address, {.timeout = std::min(time_left, kLongestQuestion),
                      .canceller = options.canceller});
    if (answer.ok() || !last.ok()) last = std::move(answer);
    if (last.ok() && last->placement.version >= version) break;
  }
  return last;
}

PlacementPtr PlacementSource::Known() const {
  MutexLock lock(&mutex_);
  return known_;
}

void PlacementSource::Learn(ClusterPlacement placement) {
  auto learnt = std::make_shared<const ClusterPlacement>(std::move(placement));
  MutexLock lock(&mutex_);
  // One of the same version may tell of other addresses and losses.
  if (known_ == nullptr || known_->version <= learnt->version) known_ = learnt;
}

std::vector<std::string> PlacementSource::Addresses() const {
  std::vector<std::string> addresses;
  const auto add = [&](const std::string& address) {
    if (!absl::c_linear_search(addresses, address))
      addresses.push_back(address);
  };
  if (const PlacementPtr known = Known()) {
    for (const ClusterServer& server : known->servers) {
      if (server.is_live) add(server.address);
    }
  }
  for (const std::string& address : addresses_) add(address);
  return addresses;
}

absl::StatusOr<DescribeClusterReply> PlacementSource::Ask(
    const std::string& address, const CallOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Connection> server,
                   connect_(address, std::make_shared<KnownServer>()));
  absl::StatusOr<DescribeClusterReply> reply =
      server->Call(DescribeClusterRequest(), options);
  if (absl::IsDeadlineExceeded(reply.status())) {
    return absl::UnavailableError(
        absl::StrCat("server ", address, ": ", reply.status().message()));
  }
  RETURN_IF_ERROR(reply.status());
  if (!reply->placement.owners.empty()) {
    RETURN_IF_ERROR(Check(reply->placement));
    Learn(reply->placement);
  } else if (reply->server_name.empty()) {
    Learn(PlacementOfOne(address));
  } else {
    return absl::UnavailableError(
        absl::StrCat("server ", address, ": knows no placement yet"));
  }
  return reply;
}

}  // namespace tensorkv
