// Takes snapshots of clusters.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cluster/all_replies.h"
#include "client/cluster/cluster_snapshots.h"
#include "client/cluster/share_outcomes.h"
#include "contract/placement.h"
#include "contract/reason.h"
#include "contract/snapshot_references.h"

namespace tensorkv {
namespace {

// Bounds each question of a call that gives up when its own time is over.
constexpr absl::Duration kLongestOvertime = absl::Milliseconds(100);

// Returns the limit of a question that a call asks when it gives up: its
// caller's time may be over, or he may have cancelled.
CallLimit LimitOfGivingUp(const CallLimit& limit, absl::Duration longest) {
  const absl::Duration left =
      limit.IsCancelled() ? absl::ZeroDuration() : limit.TimeLeft();
  return CallLimit(
      CallOptions{.timeout = std::clamp(left, kLongestOvertime, longest)},
      limit.threads);
}

CreateSnapshotReply ReplyBy(const v1::SnapshotStatus& status) {
  CreateSnapshotReply reply;
  reply.set_number(status.number());
  reply.set_revision(status.revision());
  reply.set_uid(status.uid());
  if (!status.has_num_keys()) return reply;
  reply.set_num_keys(status.num_keys());
  reply.set_bytes(status.bytes());
  return reply;
}

// Adds the counts of a share to those of the others; there are none of all if
// one has none.
void AddCounts(const CreateSnapshotReply& share, CreateSnapshotRequest& total) {
  if (!total.has_num_keys()) return;
  if (share.has_num_keys()) {
    total.set_num_keys(total.num_keys() + share.num_keys());
    total.set_bytes(total.bytes() + share.bytes());
  } else {
    total.clear_num_keys();
    total.clear_bytes();
  }
}

// Returns the request of a step after the reservation. It needs no call id.
CreateSnapshotRequest StepOf(CreateSnapshotRequest::Step step,
                             const ClusterSnapshots::Publication& publication) {
  CreateSnapshotRequest request;
  request.set_namespace_(publication.terms.namespace_());
  request.set_namespace_uid(publication.terms.namespace_uid());
  request.set_series(publication.terms.series());
  request.set_step(step);
  request.set_number(publication.terms.number());
  request.set_uid(publication.uid);
  return request;
}

// Returns the servers that own partitions, `home` first.
std::vector<std::string> OwnersIn(const ClusterPlacement& placement,
                                  const std::string& home) {
  std::vector<std::string> owners = {home};
  for (uint32_t i = 0; i < placement.servers.size(); ++i) {
    const std::string& name = placement.servers[i].name;
    if (name == home || !absl::c_linear_search(placement.owners, i)) continue;
    owners.push_back(name);
  }
  return owners;
}

// Returns whether each server has a share of the partitions that it owns: then
// each key is in one.
bool AreOf(const ClusterPlacement& placement,
           const std::vector<std::string>& servers,
           const std::vector<CreateSnapshotReply>& shares) {
  for (size_t i = 0; i < servers.size(); ++i) {
    const auto server = absl::c_find_if(
        placement.servers,
        [&](const ClusterServer& each) { return each.name == servers[i]; });
    if (server == placement.servers.end()) return false;
    const std::vector<uint32_t> partitions = PartitionsOf(
        placement, static_cast<uint32_t>(server - placement.servers.begin()));
    if (shares[i].partitions() != DigestOf(partitions)) return false;
  }
  return true;
}

}  // namespace

Task<absl::StatusOr<ClusterSnapshots::Publication>> ClusterSnapshots::Begin(
    const CreateSnapshotRequest& terms, int attempt, const CallLimit& limit) {
  CreateSnapshotRequest reserve = terms;
  reserve.set_step(CreateSnapshotRequest::RESERVE);
  NameAttempt("@", attempt + 1, reserve);
  CO_RETURN_IF_ERROR(co_await CheckWhole(limit));
  Publication publication = {.terms = terms};
  CO_ASSIGN_OR_RETURN(
      const CreateSnapshotReply reserved,
      co_await servers_.AtHome(reserve, limit, &publication.home));
  publication.terms.clear_call_id();
  publication.terms.set_number(reserved.number());
  publication.uid = reserved.uid();
  co_return publication;
}

Task<absl::Status> ClusterSnapshots::CheckWhole(const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(PlacementPtr placement,
                      co_await servers_.Placement(limit));
  while (!placement->lost.empty()) {
    CO_ASSIGN_OR_RETURN(PlacementPtr newest,
                        co_await servers_.NewerThan(placement, 0, limit));
    if (newest->version == placement->version) {
      const std::string& server = placement->lost.front().server;
      co_return WithReason(
          absl::UnavailableError(absl::StrCat(
              "no snapshot of the cluster is whole: ", NumLost(*placement),
              " partitions are not restored yet, of server \"", server,
              "\", which is lost")),
          Reason::kKeyNotRestored, {{"server", server}});
    }
    placement = std::move(newest);
  }
  co_return absl::OkStatus();
}

Task<absl::StatusOr<CreateSnapshotReply>> ClusterSnapshots::Complete(
    const Publication& publication, const CallLimit& limit) {
  absl::StatusOr<Prepared> prepared = co_await Prepare(publication, limit);
  if (!prepared.ok()) {
    co_return co_await GiveUp(publication, prepared.status(), limit);
  }
  absl::StatusOr<CreateSnapshotReply> named =
      co_await Name(publication, *prepared, limit);
  if (!named.ok()) {
    // One that may be named stays, until the servers have asked the home.
    if (MayHaveEffect(named.status())) co_return named;
    co_return co_await GiveUp(publication, named.status(), limit);
  }
  CO_RETURN_IF_ERROR(co_await TellGone(
      AfterFirst(prepared->servers), publication.terms, named->gone(), limit));
  named->clear_gone();
  CO_RETURN_IF_ERROR(co_await DropOthers(publication, *prepared, limit));
  co_return named;
}

Task<absl::StatusOr<ClusterSnapshots::Prepared>> ClusterSnapshots::Prepare(
    const Publication& publication, const CallLimit& limit) {
  CreateSnapshotRequest prepare =
      StepOf(CreateSnapshotRequest::PREPARE, publication);
  *prepare.mutable_prefixes() = publication.terms.prefixes();
  prepare.set_dtype(publication.terms.dtype());
  CreateSnapshotRequest keep = prepare;
  keep.set_has_share(true);
  CO_ASSIGN_OR_RETURN(PlacementPtr placement,
                      co_await servers_.Placement(limit));
  for (;;) {
    Prepared prepared = {.servers = OwnersIn(*placement, publication.home)};
    const auto ask = [&](size_t i, const CallLimit& of_share) {
      const std::string& server = prepared.servers[i];
      const bool has_share = publication.published_by.contains(server);
      return servers_.At(server, has_share ? keep : prepare, of_share);
    };
    auto replies =
        co_await servers_.template AtOnce<absl::StatusOr<CreateSnapshotReply>>(
            prepared.servers.size(), limit, ask);
    absl::StatusOr<std::vector<CreateSnapshotReply>> shares =
        AllOf(std::move(replies));
    if (!shares.ok() && !IsAtWrongServer(shares.status())) {
      co_return shares.status();
    }
    if (shares.ok() && AreOf(*placement, prepared.servers, *shares)) {
      prepared.shares = *std::move(shares);
      co_return prepared;
    }
    CO_ASSIGN_OR_RETURN(PlacementPtr newest,
                        co_await servers_.NewerThan(placement, 0, limit));
    if (newest->version == placement->version) {
      co_return absl::AbortedError(absl::StrCat(
          "series \"", publication.terms.series(),
          "\": partitions of the cluster have moved since the snapshot began"));
    }
    placement = std::move(newest);
  }
}

Task<absl::StatusOr<CreateSnapshotReply>> ClusterSnapshots::Name(
    const Publication& publication, const Prepared& prepared,
    const CallLimit& limit) {
  CreateSnapshotRequest name = StepOf(CreateSnapshotRequest::NAME, publication);
  *name.mutable_metadata() = publication.terms.metadata();
  if (publication.terms.has_time_to_live()) {
    *name.mutable_time_to_live() = publication.terms.time_to_live();
  }
  name.set_keep_last(publication.terms.keep_last());
  name.set_num_keys(0);
  name.set_bytes(0);
  for (size_t i = 0; i < prepared.shares.size(); ++i) {
    const CreateSnapshotReply& reply = prepared.shares[i];
    CreateSnapshotRequest::Share& share = *name.add_shares();
    share.set_server(prepared.servers[i]);
    share.set_incarnation(reply.incarnation());
    share.set_revision(reply.revision());
    AddCounts(reply, name);
  }
  co_return co_await servers_.At(prepared.servers.front(), name, limit);
}

Task<absl::StatusOr<v1::SnapshotStatus>> ClusterSnapshots::FindNamed(
    const Publication& publication, const CallLimit& limit) {
  DescribeSnapshotRequest describe;
  describe.set_namespace_(publication.terms.namespace_());
  describe.set_namespace_uid(publication.terms.namespace_uid());
  *describe.mutable_at() =
      SnapshotOf(publication.terms.series(), publication.terms.number());
  describe.mutable_at()->set_uid(publication.uid);
  CO_ASSIGN_OR_RETURN(DescribeSnapshotReply reply,
                      co_await servers_.At(publication.home, describe, limit));
  if (reply.snapshot().servers().empty()) {
    co_return absl::NotFoundError("a share is not named yet");
  }
  co_return std::move(*reply.mutable_snapshot());
}

Task<absl::Status> ClusterSnapshots::DropOthers(const Publication& publication,
                                                const Prepared& prepared,
                                                const CallLimit& limit) {
  std::vector<std::string> others;
  absl::c_copy_if(publication.published_by, std::back_inserter(others),
                  [&](const std::string& server) {
                    return !absl::c_linear_search(prepared.servers, server);
                  });
  if (others.empty()) co_return absl::OkStatus();
  // If the call is repeated, the snapshot may be named, with their shares.
  const absl::StatusOr<v1::SnapshotStatus> named =
      co_await FindNamed(publication, limit.Within(kLongestExtra));
  if (!named.ok()) co_return absl::OkStatus();
  std::erase_if(others, [&](const std::string& server) {
    return absl::c_linear_search(named->servers(), server);
  });
  co_return co_await TellGone(others, publication.terms,
                              absl::MakeConstSpan(&publication.uid, 1), limit);
}

Task<absl::StatusOr<CreateSnapshotReply>> ClusterSnapshots::GiveUp(
    const Publication& publication, const absl::Status& why,
    const CallLimit& limit) {
  const absl::StatusOr<v1::SnapshotStatus> named =
      co_await FindNamed(publication, LimitOfGivingUp(limit, kLongestExtra));
  if (named.ok()) co_return ReplyBy(*named);
  const CallLimit of_extra = LimitOfGivingUp(limit, kLongestExtra);
  CO_ASSIGN_OR_RETURN(const PlacementPtr placement,
                      co_await servers_.Placement(of_extra));
  std::vector<std::string> servers = OwnersIn(*placement, publication.home);
  absl::c_copy_if(publication.published_by, std::back_inserter(servers),
                  [&](const std::string& server) {
                    return !absl::c_linear_search(servers, server);
                  });
  CO_RETURN_IF_ERROR(co_await TellGone(servers, publication.terms,
                                       absl::MakeConstSpan(&publication.uid, 1),
                                       of_extra));
  co_return why;
}

bool ClusterSnapshots::MayBeginAgain(const CreateSnapshotRequest& terms,
                                     const absl::Status& why) {
  // Somebody else has published meanwhile.
  if (ReasonOf(why) == Reason::kSnapshotNumberPassed) {
    return !terms.has_number();
  }
  // The home has moved, or other partitions.
  return IsAtWrongServer(why) || absl::IsAborted(why);
}

Task<absl::StatusOr<CreateSnapshotReply>> ClusterSnapshots::Create(
    const CreateSnapshotRequest& terms, const CallLimit& limit) {
  for (int attempt = 0;; ++attempt) {
    CO_ASSIGN_OR_RETURN(const Publication publication,
                        co_await Begin(terms, attempt, limit));
    const absl::StatusOr<CreateSnapshotReply> taken =
        co_await Complete(publication, limit);
    const bool begins_again = !taken.ok() && attempt + 1 < kMostAttempts &&
                              MayBeginAgain(terms, taken.status());
    if (!begins_again) co_return taken;
  }
}

template <typename Request>
Task<absl::Status> ClusterSnapshots::TellGone(
    absl::Span<const std::string> servers, const Request& of,
    absl::Span<const uint64_t> uids, const CallLimit& limit) {
  if (uids.empty()) co_return absl::OkStatus();
  DeleteSnapshotRequest gone;
  gone.set_namespace_(of.namespace_());
  gone.set_series(of.series());
  gone.mutable_uids()->Assign(uids.begin(), uids.end());
  const CallLimit of_extra = limit.Within(kLongestExtra);
  // A server that does not hear it asks the home later.
  [[maybe_unused]] const auto replies =
      co_await servers_.AtEach(servers, gone, of_extra);
  co_return absl::OkStatus();
}

// It is called from elsewhere.
template Task<absl::Status> ClusterSnapshots::TellGone(
    absl::Span<const std::string> servers, const DeleteSnapshotRequest& of,
    absl::Span<const uint64_t> uids, const CallLimit& limit);

}  // namespace tensorkv
