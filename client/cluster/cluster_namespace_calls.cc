// Calls about namespaces, and what a client knows of them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "client/canceller.h"
#include "client/cluster/added_replies.h"
#include "client/cluster/all_replies.h"
#include "client/cluster/cluster_connection.h"
#include "client/cluster/merged_replies.h"
#include "client/cluster/merged_steps.h"
#include "client/cluster/merged_watch.h"
#include "client/cluster/publishing.h"
#include "client/cluster/share_outcomes.h"
#include "contract/duration.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace tensorkv {
namespace {

// Takes from the page of each server the namespaces whose home it is.
ListNamespacesReply TakeHomes(const ClusterPlacement& placement,
                              absl::Span<const std::string> servers,
                              std::vector<ListNamespacesReply>& pages) {
  ListNamespacesReply homes;
  for (size_t i = 0; i < pages.size(); ++i) {
    google::protobuf::RepeatedPtrField<NamespaceStatus> others;
    for (NamespaceStatus& status : *pages[i].mutable_namespaces()) {
      const uint32_t home = OwnerOf(placement, status.name(), "");
      const bool is_at_home = placement.servers[home].name == servers[i];
      *(is_at_home ? homes.add_namespaces() : others.Add()) = std::move(status);
    }
    pages[i].mutable_namespaces()->Swap(&others);
  }
  return homes;
}

// Returns whether a server has the namespace with another configuration than
// the home, but only in what an update of all servers that broke off, or an
// older checkpoint, may have left different: another update mends that.
bool IsBehindHome(const absl::Status& status) {
  if (ReasonOf(status) != Reason::kExistsDifferently) return false;
  const std::string fields = ErrorInfoOf(status)->metadata["fields"];
  return absl::c_all_of(absl::StrSplit(fields, ','), MayChangeInClusters);
}

// Returns a request about whatever namespace has the name, or about that of the
// uid alone.
DescribeNamespaceRequest RequestToDescribe(const std::string& name_space,
                                           uint64_t uid = 0) {
  DescribeNamespaceRequest request;
  request.set_namespace_(name_space);
  request.set_namespace_uid(uid);
  return request;
}

// Returns the uid of the namespace that a server has, where it has refused a
// call for another one; 0 if it does not tell.
uint64_t PresentUidIn(const absl::Status& refusal) {
  uint64_t uid = 0;
  if (ReasonOf(refusal) != Reason::kNamespaceReplaced) return uid;
  const bool is_told =
      absl::SimpleHexAtoi(ErrorInfoOf(refusal)->metadata["uid"], &uid);
  return is_told ? uid : 0;
}

// Bounds a question that a call can do without the answer of.
constexpr absl::Duration kLongestAside = absl::Seconds(1);

// Returns the servers that own keys by the newest placement that a server
// knows, the home of the namespace first: no call of a watch finds out
// otherwise that keys have gone to a server which it does not ask. Errors:
// those of ClusterServers::Placement.
Task<absl::StatusOr<std::vector<std::string>>> OwnersNow(
    ClusterServers& servers, const std::string& name_space,
    const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(PlacementPtr placement,
                      co_await servers.Placement(limit));
  const auto newest = co_await servers.Refresh(limit.Within(kLongestAside));
  if (newest.ok()) placement = *newest;
  const std::vector<std::string> names = NamesIn(*placement);
  std::vector<std::string> owners = {
      names[OwnerOf(*placement, name_space, "")]};
  const std::set<uint32_t> indices(placement->owners.begin(),
                                   placement->owners.end());
  for (const uint32_t i : indices) {
    if (names[i] != owners.front()) owners.push_back(names[i]);
  }
  co_return owners;
}

// Asks some of the watch's servers. If `first_ends`, the first answer ends the
// other calls. Returns what MergedWatch::Take does.
Task<absl::StatusOr<std::vector<size_t>>> AskOfWatch(ClusterServers& servers,
                                                     MergedWatch& watch,
                                                     std::vector<size_t> asked,
                                                     bool first_ends,
                                                     const CallLimit& limit) {
  const bool may_end = first_ends && asked.size() > 1;
  const auto others = may_end ? std::make_shared<Canceller>() : nullptr;
  const Canceller::Listening listening(may_end ? limit.canceller : nullptr,
                                       [others] { others->Cancel(); });
  CallLimit of_all = limit;
  if (may_end) of_all.canceller = others;
  const auto ask =
      [&](size_t i,
          const CallLimit& of_one) -> Task<absl::StatusOr<WatchReply>> {
    absl::StatusOr<WatchReply> reply = co_await servers.At(
        watch.server(asked[i]), watch.request(asked[i]), of_one);
    if (may_end && MergedWatch::IsAnswer(asked[i], reply)) others->Cancel();
    co_return reply;
  };
  std::vector<absl::StatusOr<WatchReply>> replies =
      co_await servers.AtOnce<absl::StatusOr<WatchReply>>(asked.size(), of_all,
                                                          ask);
  if (limit.IsCancelled()) {
    co_return absl::CancelledError("the caller has ended the call");
  }
  co_return watch.Take(asked, std::move(replies));
}

}  // namespace

Task<absl::StatusOr<CreateNamespaceReply>> ClusterConnection::Route(
    const CreateNamespaceRequest& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const auto servers,
                      co_await servers_.HomeFirst(request.namespace_(), limit));
  if (request.config().mode() == v1::MODE_BOUNDED && servers.size() > 1) {
    co_return absl::UnimplementedError(
        "mode: bounded is not for several servers, each of which has only the "
        "steps of its own keys");
  }
  // The home decides who has created the namespace. The others take what it
  // has, also what an earlier call has left undone.
  namespaces_.Forget(request.namespace_());
  const absl::StatusOr<CreateNamespaceReply> home =
      co_await servers_.At(servers.front(), request, limit);
  if (!home.ok() && !absl::IsAlreadyExists(home.status())) co_return home;
  CreateNamespaceRequest elsewhere = request;
  elsewhere.set_on_existing(v1::ON_EXISTING_KEEP);
  if (home.ok()) {
    elsewhere.set_namespace_uid(home->uid());
  } else if (servers.size() > 1) {
    const auto describe = RequestToDescribe(request.namespace_());
    CO_ASSIGN_OR_RETURN(DescribeNamespaceReply reply,
                        co_await servers_.At(servers.front(), describe, limit));
    elsewhere.mutable_config()->Swap(reply.mutable_status()->mutable_config());
    elsewhere.set_namespace_uid(reply.status().uid());
  }
  const auto create = [&](size_t i, const CallLimit& of_share) {
    return CreateAt(servers[i + 1], elsewhere, of_share);
  };
  const Replies<CreateNamespaceReply> others =
      co_await servers_.AtOnce<absl::StatusOr<CreateNamespaceReply>>(
          servers.size() - 1, limit, create);
  std::vector<absl::Status> statuses = StatusesOf(others);
  // That the home has it, too, says less than that others have another one.
  for (const absl::Status& status : statuses) {
    if (ReasonOf(status) == Reason::kNamespaceReplaced) co_return status;
  }
  CO_RETURN_IF_ERROR(home.status());
  absl::c_replace_if(statuses, IsBehindHome, absl::OkStatus());
  CO_RETURN_IF_ERROR(MostActionableError(statuses));
  co_return home;
}

Task<absl::StatusOr<CreateNamespaceReply>> ClusterConnection::CreateAt(
    const std::string& server, const CreateNamespaceRequest& request,
    const CallLimit& limit) {
  const auto reply = co_await servers_.At(server, request, limit);
  const uint64_t present = PresentUidIn(reply.status());
  if (present == 0) co_return reply;
  const auto describe = RequestToDescribe(request.namespace_(), present);
  const auto earlier = co_await servers_.At(server, describe, limit);
  if (!earlier.ok() || earlier->status().num_keys() > 0) co_return reply;
  CO_RETURN_IF_ERROR(co_await RemoveEarlier(server, request.namespace_(),
                                            request.namespace_uid(),
                                            reply.status(), limit));
  CreateNamespaceRequest again = request;
  NameAttempt("+", 1, again);
  co_return co_await servers_.At(server, again, limit);
}

Task<absl::Status> ClusterConnection::RemoveEarlier(
    const std::string& server, const std::string& name_space, uint64_t uid,
    const absl::Status& outcome, const CallLimit& limit) {
  const uint64_t present = PresentUidIn(outcome);
  if (present == 0 || present >= uid) co_return outcome;
  DeleteNamespaceRequest earlier;
  earlier.set_namespace_(name_space);
  earlier.set_namespace_uid(present);
  const auto reply = co_await servers_.At(server, earlier, limit);
  co_return absl::IsNotFound(reply.status()) ? absl::OkStatus()
                                             : reply.status();
}

Task<absl::StatusOr<DescribeNamespaceReply>> ClusterConnection::Route(
    const DescribeNamespaceRequest& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const auto servers,
                      co_await servers_.HomeFirst(request.namespace_(), limit));
  CO_ASSIGN_OR_RETURN(std::vector<DescribeNamespaceReply> replies,
                      co_await servers_.AllOfEach(servers, request, limit));
  const KnownNamespace known = KnownBy(replies.front().status());
  namespaces_.Learn(request.namespace_(), known);
  if (known.is_mirrored) replies.resize(1);  // The others have the same.
  // A server where a deletion has left an earlier namespace of that name counts
  // for nothing.
  std::erase_if(replies, [&](const DescribeNamespaceReply& reply) {
    return reply.status().uid() != known.uid;
  });
  co_return SumOf(std::move(replies));
}

Task<absl::StatusOr<ListNamespacesReply>> ClusterConnection::Route(
    const ListNamespacesRequest& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const auto servers, co_await servers_.All(limit));
  CO_ASSIGN_OR_RETURN(std::vector<ListNamespacesReply> pages,
                      co_await servers_.AllOfEach(servers, request, limit));
  CO_ASSIGN_OR_RETURN(const PlacementPtr placement,
                      co_await servers_.Placement(limit));
  pages.insert(pages.begin(), TakeHomes(*placement, servers, pages));
  co_return MergePages(std::move(pages), request.page_size());
}

Task<absl::StatusOr<DescribeStepsReply>> ClusterConnection::Route(
    const DescribeStepsRequest& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const auto servers,
                      co_await servers_.HomeFirst(request.namespace_(), limit));
  const auto describe = [&](const DescribeStepsRequest& made,
                            const KnownNamespace& known)
      -> Task<absl::StatusOr<DescribeStepsReply>> {
    auto pages = co_await servers_.AtEach(servers, made, limit);
    CO_RETURN_IF_ERROR(pages.front().status());
    // A server may still have the former namespace, which was deleted.
    std::erase_if(pages, [](const absl::StatusOr<DescribeStepsReply>& page) {
      return IsOfFormerNamespace(page.status());
    });
    CO_ASSIGN_OR_RETURN(std::vector<DescribeStepsReply> all,
                        AllOf(std::move(pages)));
    co_return MergeSteps(std::move(all), made.page_size(), known.is_mirrored);
  };
  co_return co_await namespaces_.MakeFor(servers.front(), request, limit,
                                         describe);
}

// All wait at the same time. Where the first of them has an answer, those that
// wait for longer are asked again for what they have by then: else a busy
// server would keep others from ever being heard.
Task<absl::StatusOr<WatchReply>> ClusterConnection::Route(
    const WatchRequest& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(
      std::vector<std::string> servers,
      co_await OwnersNow(servers_, request.namespace_(), limit));
  CO_ASSIGN_OR_RETURN(MergedWatch watch,
                      MergedWatch::Create(request, std::move(servers)));
  const CallLimit wait =
      limit.Within(request.has_max_wait() ? DurationIn(request.max_wait())
                                          : absl::InfiniteDuration());
  if (watch.begins()) {
    // Whether there is more than one to be watched, the first one says.
    const std::vector<size_t> home = {0};
    watch.SetMaxWait(absl::ZeroDuration());
    CO_RETURN_IF_ERROR((co_await AskOfWatch(servers_, watch, home,
                                            /*first_ends=*/false, limit))
                           .status());
    if (!watch.is_mirrored()) {
      CO_RETURN_IF_ERROR((co_await AskOfWatch(servers_, watch, watch.From(1),
                                              /*first_ends=*/false, limit))
                             .status());
    }
    co_return watch.Reply();
  }
  for (;;) {
    watch.SetMaxWait(wait.TimeLeft());
    CO_ASSIGN_OR_RETURN(const std::vector<size_t> ended,
                        co_await AskOfWatch(servers_, watch, watch.From(0),
                                            /*first_ends=*/true, limit));
    watch.SetMaxWait(absl::ZeroDuration());
    CO_RETURN_IF_ERROR(
        (co_await AskOfWatch(servers_, watch, ended,
                             /*first_ends=*/false, limit.Within(kLongestAside)))
            .status());
    if (watch.HasAnswer() || wait.TimeLeft() <= absl::ZeroDuration()) {
      co_return watch.Reply();
    }
  }
}

Task<absl::StatusOr<CreateSnapshotReply>> ClusterConnection::Route(
    const CreateSnapshotRequest& request, const CallLimit& limit) {
  CreateSnapshotRequest made = request;
  for (int attempt = 0;; ++attempt) {
    CO_ASSIGN_OR_RETURN(const PlacementPtr placement,
                        co_await servers_.Placement(limit));
    const uint32_t home = OwnerOf(*placement, made.namespace_(), "");
    CO_ASSIGN_OR_RETURN(const KnownNamespace known,
                        co_await namespaces_.KnowAt(
                            placement->servers[home].name, made.namespace_(),
                            made.namespace_uid(), limit));
    NameUid(known, made);
    const bool takes_shares = !known.is_mirrored && IsOfShares(*placement);
    Task<absl::StatusOr<CreateSnapshotReply>> task =
        takes_shares ? snapshots_.Create(made, limit)
                     : snapshots_.Make(made, limit);
    const absl::StatusOr<CreateSnapshotReply> reply = co_await task;
    const bool has_grown =
        !takes_shares && !known.is_mirrored && IsAtWrongServer(reply.status());
    const bool finds_another =
        IsOfFormerNamespace(reply.status()) && request.namespace_uid() == 0;
    const bool may_go_on = has_grown || finds_another;
    if (!may_go_on || attempt == ClusterSnapshots::kMostAttempts)
      co_return reply;
    if (has_grown) {
      const uint64_t told = VersionToldBy({reply.status()});
      CO_RETURN_IF_ERROR(co_await servers_.NewerThan(placement, told, limit));
    } else {
      namespaces_.Forget(request.namespace_(), known.uid);
    }
    made = request;
    NameAttempt("=", attempt + 1, made);
  }
}

}  // namespace tensorkv
