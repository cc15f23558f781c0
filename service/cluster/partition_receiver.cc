#include "service/cluster/partition_receiver.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/cluster/placement_changes.h"

namespace tensorkv {
namespace {

// Bounds how often a commit looks whether it has taken effect.
constexpr int kMostTries = 3;

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

// Returns the placement after this one, in which they are the server's.
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

// Returns whether the server has that registration.
bool IsRegistered(const ClusterReading& reading, const std::string& name,
                  int64_t registration) {
  const auto found = reading.registrations.find(name);
  return found != reading.registrations.end() &&
         found->second.revision == registration;
}

}  // namespace

PartitionReceiver::PartitionReceiver(const ClusterOptions& options,
                                     MoveEnvironment environment,
                                     ClusterRecords records)
    : options_(options),
      environment_(std::move(environment)),
      records_(std::move(records)) {}

PartitionReceiver::Sender& PartitionReceiver::SenderOf(
    const std::string& name) {
  MutexLock lock(&mutex_);
  std::unique_ptr<Sender>& sender = senders_[name];
  if (sender == nullptr) sender = std::make_unique<Sender>();
  return *sender;
}

template <typename Request>
absl::Status PartitionReceiver::CheckNames(const Request& request) const {
  if (!request.from().empty() && request.move() != 0 &&
      request.from() != environment_.server_name) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "expected the name of another server, and a move");
}

template <typename Request>
absl::Status PartitionReceiver::CheckGoesOn(const Request& request,
                                            const Sender& sender) {
  if (sender.move == request.move()) return sender.status;
  return absl::NotFoundError(absl::StrCat(
      "no such move of server ", request.from(),
      ": it has begun another one since, or this server was started anew"));
}

absl::Status PartitionReceiver::Handle(const v1::BeginMoveRequest& request) {
  RETURN_IF_ERROR(CheckNames(request));
  Sender& sender = SenderOf(request.from());
  MutexLock lock(&sender.mutex);
  const bool is_last = sender.move == request.move();
  if (!request.partitions().empty()) {
    return is_last ? absl::OkStatus() : Begin(request, sender);  // OK: again
  }
  // One that comes late names a move that has ended.
  return is_last ? GiveUp(sender) : absl::OkStatus();
}

absl::Status PartitionReceiver::Handle(const v1::SendMovePartRequest& request) {
  RETURN_IF_ERROR(CheckNames(request));
  Sender& sender = SenderOf(request.from());
  MutexLock lock(&sender.mutex);
  RETURN_IF_ERROR(CheckGoesOn(request, sender));
  return sender.is_committed ? absl::OkStatus() : TakePart(request, sender);
}

absl::Status PartitionReceiver::Handle(const v1::CommitMoveRequest& request) {
  RETURN_IF_ERROR(CheckNames(request));
  Sender& sender = SenderOf(request.from());
  MutexLock lock(&sender.mutex);
  RETURN_IF_ERROR(CheckGoesOn(request, sender));
  return sender.is_committed ? absl::OkStatus() : Commit(request, sender);
}

absl::Status PartitionReceiver::Begin(const v1::BeginMoveRequest& request,
                                      Sender& sender) {
  const PartitionSet set = {
      .num_partitions = request.num_partitions(),
      .partitions = {request.partitions().begin(), request.partitions().end()}};
  MutexLock lock(&records_mutex_);
  ASSIGN_OR_RETURN(ClusterReading reading, records_.Read());
  RETURN_IF_ERROR(CheckSet(set, reading.placement));
  // One that comes late may name what is this server's by now, or on its way
  // from another one.
  if (!OwnsAll(reading.placement, request.from(), set.partitions)) {
    return absl::AbortedError(absl::StrCat(
        "partitions of the move are not server ", request.from(), "'s"));
  }
  DiscardArrivalsOf(sender, reading.placement);
  // This server may know a placement of the time when it had them.
  RETURN_IF_ERROR(
      environment_.known->Set(reading.placement, environment_.server_name));
  for (const uint32_t partition : set.partitions) {
    arriving_[partition] = request.move();
  }
  sender.move = request.move();
  sender.registration = reading.registrations[request.from()].revision;
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

absl::Status PartitionReceiver::GiveUp(Sender& sender) {
  MutexLock lock(&records_mutex_);
  ASSIGN_OR_RETURN(const ClusterReading reading, records_.Read());
  End(sender, reading.placement, absl::CancelledError("the move has ended"));
  return absl::OkStatus();
}

void PartitionReceiver::End(Sender& sender, const ClusterPlacement& placement,
                            absl::Status why) {
  sender.status = std::move(why);
  sender.is_committed = false;
  sender.reader = nullptr;
  sender.restoration = nullptr;
  DiscardArrivalsOf(sender, placement);
}

void PartitionReceiver::EndAbandoned(const ClusterReading& reading) {
  std::vector<std::pair<std::string, Sender*>> senders;
  {
    MutexLock lock(&mutex_);
    for (const auto& [name, sender] : senders_) {
      senders.emplace_back(name, sender.get());
    }
  }
  for (const auto& [name, sender] : senders) {
    MutexLock lock(&sender->mutex);
    if (sender->restoration == nullptr ||
        IsRegistered(reading, name, sender->registration)) {
      continue;
    }
    MutexLock records_lock(&records_mutex_);
    // It may have begun since the reading.
    const absl::StatusOr<ClusterReading> now = records_.Read();
    if (!now.ok() || IsRegistered(*now, name, sender->registration)) continue;
    End(*sender, now->placement,
        absl::AbortedError(absl::StrCat("server ", name, " was gone")));
  }
}

void PartitionReceiver::DiscardArrivalsOf(const Sender& sender,
                                          const ClusterPlacement& placement) {
  PartitionSet left = {.num_partitions = sender.set.num_partitions};
  for (const uint32_t partition : sender.set.partitions) {
    if (!IsArriving(partition, sender.move)) continue;
    arriving_.erase(partition);
    // A commit that has failed may have taken effect.
    if (!OwnsAll(placement, environment_.server_name, {partition})) {
      left.partitions.push_back(partition);
    }
  }
  if (!left.partitions.empty()) environment_.store->Discard(left);
}

void PartitionReceiver::CancelArrivals(
    const std::vector<uint32_t>& partitions) {
  MutexLock lock(&records_mutex_);
  for (const uint32_t partition : partitions) arriving_.erase(partition);
}

absl::Status PartitionReceiver::CheckAreArriving(const Sender& sender) const {
  for (const uint32_t partition : sender.set.partitions) {
    if (IsArriving(partition, sender.move)) continue;
    return absl::AbortedError(absl::StrCat(
        "partition ", partition,
        " of the move has begun to come from another server, or is restored "
        "here"));
  }
  return absl::OkStatus();
}

bool PartitionReceiver::IsArriving(uint32_t partition, uint64_t move) const {
  const auto found = arriving_.find(partition);
  return found != arriving_.end() && found->second == move;
}

absl::Status PartitionReceiver::TakePart(const v1::SendMovePartRequest& request,
                                         Sender& sender) {
  if (request.part() + 1 == sender.next_part) return absl::OkStatus();  // again
  if (request.part() != sender.next_part) {
    return absl::InvalidArgumentError(absl::StrCat(
        "part: expected ", sender.next_part, ", got ", request.part()));
  }
  ++sender.next_part;
  MutexLock lock(&records_mutex_);
  sender.status = CheckAreArriving(sender);
  if (sender.status.ok()) sender.status = sender.reader->Read(request.data());
  if (sender.status.ok()) return absl::OkStatus();
  // What is full has its memory back at once.
  const absl::StatusOr<ClusterReading> reading = records_.Read();
  if (reading.ok()) End(sender, reading->placement, sender.status);
  return sender.status;
}

absl::Status PartitionReceiver::Commit(const v1::CommitMoveRequest& request,
                                       Sender& sender) {
  MutexLock lock(&records_mutex_);
  RETURN_IF_ERROR(CheckAreArriving(sender));
  // Late messages may have begun another move meanwhile, and this one again.
  if (request.num_parts() != sender.next_part) {
    return absl::DataLossError(
        absl::StrCat("parts of the move: expected ", request.num_parts(),
                     " since it began, got ", sender.next_part));
  }
  RETURN_IF_ERROR(sender.reader->Finish());
  RETURN_IF_ERROR(sender.restoration->Commit());
  const std::vector<uint32_t>& partitions = sender.set.partitions;
  RETURN_IF_ERROR(TakeOwnership(request, partitions));
  for (const uint32_t partition : partitions) arriving_.erase(partition);
  sender.is_committed = true;
  sender.reader = nullptr;
  sender.restoration = nullptr;
  return absl::OkStatus();
}

absl::Status PartitionReceiver::TakeOwnership(
    const v1::CommitMoveRequest& request,
    const std::vector<uint32_t>& partitions) {
  const std::string& own_name = environment_.server_name;
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
    if (reading.placement.version != request.placement_version() ||
        reading.registrations[request.from()].revision !=
            request.registration() ||
        !OwnsAll(reading.placement, request.from(), partitions)) {
      return absl::AbortedError(absl::StrCat(
          "the move was to change placement ", request.placement_version(),
          " of a server that is registered by revision ",
          request.registration(), "; it is not so any more"));
    }
    const ClusterServer self = {.name = own_name,
                                .address = options_.address,
                                .weight = options_.weight,
                                .live = true};
    RETURN_IF_ERROR(
        records_
            .ReplacePlacement(WithOwner(reading.placement, self, partitions),
                              reading.placement_revision,
                              {{request.from(), request.registration()},
                               {own_name, own.revision}})
            .status());
  }
  return absl::AbortedError("others write to etcd all the time");
}

}  // namespace tensorkv
