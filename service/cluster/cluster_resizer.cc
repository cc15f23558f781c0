#include "service/cluster/cluster_resizer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/cluster/placement_maker.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// How often a request is tried that others have outrun.
constexpr int kMostRequests = 5;

bool HasServer(const std::vector<ClusterServer>& servers,
               absl::string_view name) {
  return absl::c_any_of(servers, [name](const ClusterServer& server) {
    return server.name == name;
  });
}

const ClusterServer* FindServer(const std::vector<ClusterServer>& servers,
                                absl::string_view name) {
  const auto found = std::ranges::find(servers, name, &ClusterServer::name);
  return found == servers.end() ? nullptr : &*found;
}

const std::string& OwnerName(const ClusterPlacement& placement,
                             size_t partition) {
  return placement.servers[placement.owners[partition]].name;
}

uint32_t NumToMove(const ClusterReading& reading) {
  const std::vector<std::string> wanted = OwnersWanted(reading);
  uint32_t num = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    num += wanted[i] == OwnerName(reading.placement, i) ? 0 : 1;
  }
  return num;
}

// Whom the request wants. Errors: NotFound, InvalidArgument.
absl::StatusOr<std::vector<ClusterServer>> WantedBy(
    const ResizeClusterRequest& request, const ClusterReading& reading) {
  std::vector<ClusterServer> wanted = reading.wanted;
  for (const std::string& name : request.add) {
    if (HasServer(wanted, name)) continue;
    const ClusterServer* const server = FindServer(reading.servers, name);
    if (server == nullptr) {
      return absl::NotFoundError(absl::StrCat(
          "server ", Quoted(name), " has not registered: start it first"));
    }
    wanted.push_back(*server);
  }
  for (const std::string& name : request.remove) {
    const bool is_known = HasServer(reading.placement.servers, name) ||
                          HasServer(reading.servers, name);
    if (std::erase_if(wanted,
                      [&](const ClusterServer& server) {
                        return server.name == name;
                      }) == 0 &&
        !is_known) {
      return absl::NotFoundError(
          absl::StrCat("the cluster has no server ", Quoted(name)));
    }
  }
  if (!wanted.empty()) return wanted;
  return absl::InvalidArgumentError(
      "remove: expected to leave a server that has the keys, got all");
}

}  // namespace

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

ClusterPlacement WithoutLeft(const ClusterReading& reading) {
  const ClusterPlacement& before = reading.placement;
  std::vector<bool> stays(before.servers.size());
  for (const uint32_t owner : before.owners) stays[owner] = true;
  ClusterPlacement after = before;
  after.servers.clear();
  std::vector<uint32_t> index(before.servers.size());
  for (size_t i = 0; i < before.servers.size(); ++i) {
    if (!stays[i] && !HasServer(reading.wanted, before.servers[i].name)) {
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

ClusterResizer::ClusterResizer(const ClusterOptions& options,
                               MoveEnvironment environment, CallPeer call,
                               ClusterRecords::Log log)
    : options_(options),
      environment_(std::move(environment)),
      log_(std::move(log)),
      request_records_(options_, [](const std::string&) {}),
      records_(options_, [](const std::string&) {}),
      sender_(environment_, &records_, std::move(call),
              /*patience=*/std::max(options_.lease, absl::Seconds(10))),
      thread_([this] { Run(); }) {}

void ClusterResizer::Stop() {
  {
    MutexLock lock(&mutex_);
    if (stopping_) return;
    stopping_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

void ClusterResizer::Run() {
  absl::StatusOr<bool> turn = false;
  do {
    turn = Turn();
    is_unsettled_ = sender_.is_unsettled();
    bytes_sent_ = sender_.sent_bytes();
    Report(turn.status());
  } while (
      !Sleep(turn.ok() && *turn ? absl::ZeroDuration() : options_.lease / 3));
}

bool ClusterResizer::Sleep(absl::Duration pause) {
  MutexLock lock(&mutex_);
  if (!stopping_ && !is_asked_ && pause > absl::ZeroDuration()) {
    changed_.WaitWithTimeout(&mutex_, pause);
  }
  is_asked_ = false;
  return stopping_;
}

// Each error once, until another one comes, or none.
void ClusterResizer::Report(const absl::Status& turn) {
  const std::string text(turn.message());
  if (text != reported_ && !text.empty()) {
    log_(absl::StrCat("cluster: partitions do not move: ", text));
  }
  reported_ = text;
}

absl::StatusOr<bool> ClusterResizer::Turn() {
  if (sender_.is_unsettled()) return sender_.Settle();
  ASSIGN_OR_RETURN(const ClusterReading reading, records_.Read());
  const auto own = reading.registrations.find(environment_.server_name);
  // It is not there yet, or another server has its name.
  if (own == reading.registrations.end() ||
      own->second.lease != environment_.own_lease()) {
    return false;
  }
  const ClusterPlacement rest = WithoutLeft(reading);
  if (rest.version != reading.placement.version) {
    return records_.ReplacePlacement(rest, reading.placement_revision);
  }
  return MoveSome(reading, OwnersWanted(reading));
}

absl::StatusOr<bool> ClusterResizer::MoveSome(
    const ClusterReading& reading, const std::vector<std::string>& wanted) {
  std::map<std::string, std::vector<uint32_t>> by_receiver;
  uint64_t num_to_move = 0;
  for (uint32_t i = 0; i < wanted.size(); ++i) {
    if (OwnerName(reading.placement, i) != environment_.server_name ||
        wanted[i] == environment_.server_name) {
      continue;
    }
    ++num_to_move;
    std::vector<uint32_t>& partitions = by_receiver[wanted[i]];
    if (partitions.size() < kPartitionsPerMove) partitions.push_back(i);
  }
  partitions_to_move_ = num_to_move;
  if (by_receiver.empty()) return false;
  const auto next =
      std::next(by_receiver.begin(),
                static_cast<int64_t>(num_turns_++ % by_receiver.size()));
  const ClusterServer* const to = FindServer(reading.servers, next->first);
  if (to == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("server ", Quoted(next->first), " is not live"));
  }
  RETURN_IF_ERROR(Move(*to, next->second,
                       static_cast<uint32_t>(reading.placement.owners.size())));
  return true;
}

absl::Status ClusterResizer::Move(const ClusterServer& to,
                                  std::vector<uint32_t> partitions,
                                  uint32_t num_partitions) {
  const size_t num_moving = partitions.size();
  const absl::Status status =
      sender_.Move(to, std::move(partitions), num_partitions);
  if (status.ok()) {
    ++moves_ended_;
    partitions_moved_ += num_moving;
    partitions_to_move_ -= num_moving;
    log_(absl::StrCat("cluster: ", num_moving, " partitions have moved to ",
                      to.name));
  } else {
    ++moves_failed_;
  }
  return status;
}

absl::StatusOr<ResizeClusterReply> ClusterResizer::Resize(
    const ResizeClusterRequest& request) {
  MutexLock lock(&request_mutex_);
  for (int i = 0; i < kMostRequests; ++i) {
    ASSIGN_OR_RETURN(const ClusterReading reading, request_records_.Read());
    if (reading.placement.owners.empty()) {
      return absl::UnavailableError("the cluster has no placement yet");
    }
    ASSIGN_OR_RETURN(const std::vector<ClusterServer> wanted,
                     WantedBy(request, reading));
    if (wanted == reading.wanted) {
      MutexLock thread_lock(&mutex_);
      is_asked_ = true;
      changed_.SignalAll();
      return ResizeClusterReply{wanted, NumToMove(reading)};
    }
    // Read again, whatever the answer is.
    RETURN_IF_ERROR(
        request_records_.SetWanted(wanted, reading.wanted_revision).status());
  }
  return absl::UnavailableError("others write to etcd all the time");
}

MoveCounts ClusterResizer::counts() const {
  return {.moves_ended = moves_ended_,
          .moves_failed = moves_failed_,
          .partitions_moved = partitions_moved_,
          .bytes_sent = bytes_sent_,
          .partitions_to_move = partitions_to_move_,
          .moves_unsettled = is_unsettled_ ? 1u : 0u};
}

}  // namespace tensorkv
