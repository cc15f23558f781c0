#include "service/cluster/cluster_resizer.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "service/cluster/placement_changes.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Bounds how often a request is tried that others have outrun.
constexpr int kMostRequests = 5;

// Says how many times the wait for rounds passes at most until the next one.
constexpr int kMostPatiences = 8;

// Returns for how long a move waits for rounds to close.
absl::Duration Patience(const ClusterOptions& options) {
  return std::max(options.lease, absl::Seconds(10));
}

// Returns the answer to a request that asks for nothing more than the reading
// has.
ResizeClusterReply ReplyOf(const ClusterReading& reading) {
  ResizeClusterReply reply;
  for (const ClusterServer& server : reading.wanted) {
    ToProto(server, reply.add_servers());
  }
  reply.set_partitions_to_move(NumToMove(reading));
  reply.set_partitions_to_restore(NumLost(reading.placement));
  return reply;
}

}  // namespace

ClusterResizer::ClusterResizer(const ClusterOptions& options, Channels* etcd,
                               MoveEnvironment environment,
                               PartitionReceiver* receiver, CallPeer call,
                               TakeoverCheckpoints checkpoints,
                               ClusterRecords::Log log)
    : options_(options),
      environment_(std::move(environment)),
      receiver_(*receiver),
      log_(std::move(log)),
      request_records_(
          options_, [](const std::string&) {}, etcd),
      records_(
          options_, [](const std::string&) {}, etcd),
      sender_(environment_, &records_, std::move(call), Patience(options_),
              [this] { return CheckNotStopping(); }),
      restorer_(environment_, &records_, receiver, std::move(checkpoints),
                log_),
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

absl::Status ClusterResizer::CheckNotStopping() {
  MutexLock lock(&mutex_);
  return stopping_ ? absl::CancelledError("this server ends")
                   : absl::OkStatus();
}

void ClusterResizer::Run() {
  absl::StatusOr<bool> outcome = false;
  do {
    outcome = RunOnce();
    is_unsettled_ = sender_.is_unsettled();
    bytes_sent_ = sender_.sent_bytes();
    bytes_sent_fenced_ = sender_.sent_fenced_bytes();
    Report(outcome.status());
  } while (!Sleep(outcome.ok() && *outcome ? absl::ZeroDuration()
                                           : options_.lease / 3));
}

bool ClusterResizer::Sleep(absl::Duration pause) {
  MutexLock lock(&mutex_);
  if (!stopping_ && !is_asked_ && pause > absl::ZeroDuration()) {
    changed_.WaitWithTimeout(&mutex_, pause);
  }
  is_asked_ = false;
  return stopping_;
}

// Reports each error once, until another one comes, or none.
void ClusterResizer::Report(const absl::Status& outcome) {
  const std::string text(outcome.message());
  if (text != reported_ && !text.empty()) {
    log_(absl::StrCat("cluster: partitions are not where they are to be: ",
                      text));
  }
  reported_ = text;
}

absl::StatusOr<bool> ClusterResizer::RunOnce() {
  if (sender_.is_unsettled()) return sender_.Settle();
  ASSIGN_OR_RETURN(const ClusterReading reading, records_.Read());
  receiver_.EndAbandoned(reading);
  const auto own = reading.registrations.find(environment_.server_name);
  // It is not there yet, or another server has its name.
  if (own == reading.registrations.end() ||
      own->second.lease != environment_.own_lease()) {
    return false;
  }
  const ClusterPlacement rest = WithoutLeavers(reading);
  if (rest.version != reading.placement.version) {
    return records_.ReplacePlacement(rest, reading.placement_revision);
  }
  // Partitions that one server has lost are no reason to leave those of others.
  const absl::Status has_lost = DeclareLostServers(reading);
  partitions_to_restore_ = NumMissing(reading.placement);
  const absl::StatusOr<bool> has_restored = restorer_.RunOnce(reading);
  if (has_restored.ok() && *has_restored) return true;
  ASSIGN_OR_RETURN(const bool has_moved,
                   MoveSome(reading, OwnersWanted(reading)));
  RETURN_IF_ERROR(has_restored.status());
  RETURN_IF_ERROR(has_lost);
  return has_moved;
}

uint64_t ClusterResizer::NumMissing(const ClusterPlacement& placement) const {
  uint64_t num = 0;
  for (const LostPartitions& lost : placement.lost) {
    for (const uint32_t partition : lost.partitions) {
      num += OwnerName(placement, partition) == environment_.server_name;
    }
  }
  return num;
}

absl::Status ClusterResizer::DeclareLostServers(const ClusterReading& reading) {
  if (options_.lost_after == absl::ZeroDuration()) return absl::OkStatus();
  const auto now = std::chrono::steady_clock::now();
  // A server that had come back meanwhile would still have its lease.
  const bool has_watched =
      absl::FromChrono(now - std::exchange(last_look_, now)) < options_.lease;
  decltype(gone_since_) gone_since;
  std::vector<std::string> lost;
  for (const ClusterServer& server : reading.placement.servers) {
    if (reading.registrations.contains(server.name)) continue;
    const auto before = gone_since_.find(server.name);
    const bool was_gone = before != gone_since_.end() && has_watched;
    const auto since = was_gone ? before->second : now;
    gone_since[server.name] = since;
    if (absl::FromChrono(now - since) >= options_.lost_after) {
      lost.push_back(server.name);
    }
  }
  gone_since_ = std::move(gone_since);
  if (lost.empty()) return absl::OkStatus();
  const ResizeClusterRequest request = TakeoverOf(lost, reading);
  ASSIGN_OR_RETURN(const ResizedCluster resized, Resized(request, reading));
  ASSIGN_OR_RETURN(const bool is_written,
                   records_.ReplacePlacementAndWanted(
                       resized.placement, resized.wanted, reading, lost));
  if (is_written) {
    log_(absl::StrCat(
        "cluster: ", absl::StrJoin(lost, ", "), " has not come back for ",
        absl::FormatDuration(options_.lost_after), ", and counts as lost"));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ClusterResizer::MoveSome(
    const ClusterReading& reading, const std::vector<std::string>& wanted) {
  const std::set<uint32_t> missing = MissingIn(reading.placement);
  std::map<std::string, std::vector<uint32_t>> by_receiver;
  uint64_t num_to_move = 0;
  for (uint32_t i = 0; i < wanted.size(); ++i) {
    if (OwnerName(reading.placement, i) != environment_.server_name ||
        wanted[i] == environment_.server_name || missing.contains(i)) {
      continue;
    }
    ++num_to_move;
    std::vector<uint32_t>& partitions = by_receiver[wanted[i]];
    if (partitions.size() < kPartitionsPerMove) partitions.push_back(i);
  }
  partitions_to_move_ = num_to_move;
  if (by_receiver.empty()) return false;
  if (std::chrono::steady_clock::now() < next_move_) return could_not_fence_;
  const auto next =
      std::next(by_receiver.begin(),
                static_cast<int64_t>(num_runs_++ % by_receiver.size()));
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
    ++moves_succeeded_;
    partitions_moved_ += num_moving;
    partitions_to_move_ -= num_moving;
    log_(absl::StrCat("cluster: ", num_moving, " partitions have moved to ",
                      to.name));
  } else {
    ++moves_failed_;
  }
  BackOff(status);
  return status;
}

// Calls about the keys are refused while they are fenced, and rounds that do
// not close may stay open for long.
void ClusterResizer::BackOff(const absl::Status& moved) {
  const bool backs_off = absl::IsDeadlineExceeded(moved);
  back_off_ = backs_off ? std::clamp(2 * back_off_, Patience(options_),
                                     kMostPatiences * Patience(options_))
                        : absl::ZeroDuration();
  could_not_fence_ = backs_off ? moved : absl::OkStatus();
  next_move_ =
      std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(back_off_);
}

absl::StatusOr<ResizeClusterReply> ClusterResizer::Resize(
    const ResizeClusterRequest& request) {
  MutexLock lock(&request_mutex_);
  for (int i = 0; i < kMostRequests; ++i) {
    ASSIGN_OR_RETURN(const ClusterReading reading, request_records_.Read());
    if (reading.placement.owners.empty()) {
      return absl::UnavailableError("the cluster has no placement yet");
    }
    ASSIGN_OR_RETURN(const ResizedCluster resized, Resized(request, reading));
    if (resized == ResizedCluster{reading.placement, reading.wanted}) {
      MutexLock thread_lock(&mutex_);
      is_asked_ = true;
      changed_.SignalAll();
      return ReplyOf(reading);
    }
    // Read again, whatever the answer is.
    RETURN_IF_ERROR((request.lost().empty()
                         ? request_records_.SetWanted(resized.wanted,
                                                      reading.wanted_revision)
                         : request_records_.ReplacePlacementAndWanted(
                               resized.placement, resized.wanted, reading,
                               {request.lost().begin(), request.lost().end()}))
                        .status());
  }
  return absl::UnavailableError("others write to etcd all the time");
}

MoveCounts ClusterResizer::counts() const {
  return {.moves_succeeded = moves_succeeded_,
          .moves_failed = moves_failed_,
          .partitions_moved = partitions_moved_,
          .bytes_sent = bytes_sent_,
          .bytes_sent_fenced = bytes_sent_fenced_,
          .partitions_to_move = partitions_to_move_,
          .moves_unsettled = is_unsettled_ ? 1u : 0u,
          .partitions_to_restore = partitions_to_restore_};
}

}  // namespace tensorkv
