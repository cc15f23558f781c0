#include "service/cluster/partition_receiver.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/cluster/placement_changes.h"

namespace tensorkv {
namespace {

// How often a commit looks whether it has taken effect.
constexpr int kMostTries = 3;

bool OwnsAny(const ClusterPlacement& placement, absl::string_view server,
             const std::vector<uint32_t>& partitions) {
  return std::ranges::any_of(partitions, [&](uint32_t partition) {
    return partition < placement.owners.size() &&
           placement.servers[placement.owners[partition]].name == server;
  });
}

absl::Status CheckSet(const PartitionSet& set,
                      const ClusterPlacement& placement) {
  const bool is_right =
      set.num_partitions == placement.owners.size() &&
      !set.partitions.empty() &&
      std::ranges::all_of(set.partitions, [&](uint32_t partition) {
        return partition < set.num_partitions;
      });
  if (is_right) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("partitions: expected some of the placement's ",
                   placement.owners.size(), ", got others"));
}

// The placement after this one, in which they are the server's.
ClusterPlacement WithOwner(ClusterPlacement placement,
                           const ClusterServer& server,
                           const std::vector<uint32_t>& partitions) {
  ++placement.version;
  auto found =
      std::ranges::find(placement.servers, server.name, &ClusterServer::name);
  const auto index = static_cast<uint32_t>(found - placement.servers.begin());
  if (found == placement.servers.end()) placement.servers.push_back(server);
  for (const uint32_t partition : partitions) {
    placement.owners[partition] = index;
  }
  return placement;
}

}  // namespace

PartitionReceiver::PartitionReceiver(const ClusterOptions& options,
                                     MoveEnvironment environment,
                                     ClusterRecords::Log log)
    : options_(options),
      environment_(std::move(environment)),
      records_(options_, std::move(log)) {}

PartitionReceiver::Sender& PartitionReceiver::SenderOf(
    const std::string& name) {
  MutexLock lock(&mutex_);
  std::unique_ptr<Sender>& sender = senders_[name];
  if (sender == nullptr) sender = std::make_unique<Sender>();
  return *sender;
}

absl::StatusOr<ClusterReading> PartitionReceiver::Read() {
  MutexLock lock(&records_mutex_);
  return records_.Read();
}

absl::Status PartitionReceiver::Handle(const MovePartitionsRequest& request) {
  if (request.from.empty() || request.move == 0 ||
      request.from == environment_.server_name) {
    return absl::InvalidArgumentError(
        "expected the name of another server, and a move");
  }
  Sender& sender = SenderOf(request.from);
  MutexLock lock(&sender.mutex);
  if (request.step == MoveStep::kBegin) return Begin(request, sender);
  if (sender.move != request.move) {
    return absl::NotFoundError(absl::StrCat(
        "no such move of server ", request.from,
        ": it has begun another one since, or this server was started anew"));
  }
  if (sender.is_committed) return absl::OkStatus();
  RETURN_IF_ERROR(sender.status);
  switch (request.step) {
    case MoveStep::kPart:
      return TakePart(request, sender);
    case MoveStep::kCommit:
      return Commit(request, sender);
    default:
      return absl::InvalidArgumentError("step: expected BEGIN, PART or COMMIT");
  }
}

absl::Status PartitionReceiver::Begin(const MovePartitionsRequest& request,
                                      Sender& sender) {
  const bool is_repeat = sender.move == request.move && sender.next_part == 0;
  if (is_repeat) return absl::OkStatus();
  const PartitionSet set = {.num_partitions = request.num_partitions,
                            .partitions = request.partitions};
  ASSIGN_OR_RETURN(const ClusterReading reading, Read());
  RETURN_IF_ERROR(CheckSet(set, reading.placement));
  const std::string& own_name = environment_.server_name;
  if (OwnsAny(reading.placement, own_name, set.partitions)) {
    return absl::AbortedError("partitions of the move are this server's");
  }
  // What the sender's last move has brought, if that came to nothing.
  if (sender.move != 0 && !sender.is_committed &&
      !OwnsAny(reading.placement, own_name, sender.set.partitions)) {
    environment_.store->Discard(sender.set);
  }
  sender.move = request.move;
  sender.is_committed = false;
  sender.status = absl::OkStatus();
  sender.next_part = 0;
  sender.reader = nullptr;
  sender.restoration = environment_.store->StartAdoption(set);
  sender.reader =
      std::make_unique<SnapshotStreamReader>(sender.restoration.get());
  sender.set = set;
  return absl::OkStatus();
}

absl::Status PartitionReceiver::TakePart(const MovePartitionsRequest& request,
                                         Sender& sender) {
  if (request.part + 1 == sender.next_part) return absl::OkStatus();  // again
  if (request.part != sender.next_part) {
    return absl::InvalidArgumentError(absl::StrCat(
        "part: expected ", sender.next_part, ", got ", request.part));
  }
  ++sender.next_part;
  sender.status = sender.reader->Read(request.data);
  return sender.status;
}

absl::Status PartitionReceiver::Commit(const MovePartitionsRequest& request,
                                       Sender& sender) {
  RETURN_IF_ERROR(sender.reader->Finish());
  RETURN_IF_ERROR(sender.restoration->Commit());
  RETURN_IF_ERROR(TakeOwnership(request, sender.set.partitions));
  sender.is_committed = true;
  sender.reader = nullptr;
  sender.restoration = nullptr;
  return absl::OkStatus();
}

absl::Status PartitionReceiver::TakeOwnership(
    const MovePartitionsRequest& request,
    const std::vector<uint32_t>& partitions) {
  const std::string& own_name = environment_.server_name;
  MutexLock lock(&records_mutex_);
  for (int i = 0; i < kMostTries; ++i) {
    ASSIGN_OR_RETURN(ClusterReading reading, records_.Read());
    const auto own = reading.registrations[own_name];
    if (own.lease == 0 || own.lease != environment_.own_lease()) {
      return absl::UnavailableError(
          absl::StrCat("server ", own_name, " is not registered"));
    }
    if (OwnsAll(reading.placement, own_name, partitions)) {
      return environment_.known->Set(std::move(reading.placement), own_name);
    }
    if (reading.placement.version != request.placement_version ||
        reading.registrations[request.from].revision != request.registration ||
        !OwnsAll(reading.placement, request.from, partitions)) {
      return absl::AbortedError(absl::StrCat(
          "the move was to change placement ", request.placement_version,
          " of a server that is registered by revision ", request.registration,
          "; it is not so any more"));
    }
    const ClusterServer self = {.name = own_name,
                                .address = options_.address,
                                .weight = options_.weight,
                                .is_live = true};
    RETURN_IF_ERROR(
        records_
            .ReplacePlacement(WithOwner(reading.placement, self, partitions),
                              reading.placement_revision,
                              {{request.from, request.registration},
                               {own_name, own.revision}})
            .status());
  }
  return absl::AbortedError("others write to etcd all the time");
}

}  // namespace tensorkv
