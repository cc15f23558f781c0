// Calls about namespaces, and what a client knows of their kinds.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "client/cluster/added_replies.h"
#include "client/cluster/all_replies.h"
#include "client/cluster/cluster_connection.h"
#include "client/cluster/merged_replies.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

// Takes from the page of each server the namespaces whose home it is.
ListNamespacesReply TakeHomes(const ClusterPlacement& placement,
                              absl::Span<const std::string> servers,
                              std::vector<ListNamespacesReply>& pages) {
  ListNamespacesReply homes;
  for (size_t i = 0; i < pages.size(); ++i) {
    std::erase_if(pages[i].namespaces, [&](NamespaceStatus& status) {
      const uint32_t home = OwnerOf(placement, status.name, "");
      if (placement.servers[home].name != servers[i]) return false;
      homes.namespaces.push_back(std::move(status));
      return true;
    });
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

KnownNamespaces::Kind KindOf(const NamespaceStatus& status) {
  return {.uid = status.uid, .is_mirrored = status.config.mirrored};
}

}  // namespace

absl::StatusOr<CreateNamespaceReply> ClusterConnection::Route(
    const CreateNamespaceRequest& request, const CallLimit& limit) {
  ASSIGN_OR_RETURN(const auto servers,
                   servers_.HomeFirst(request.name_space, limit));
  if (request.config.mode == Mode::kBounded && servers.size() > 1) {
    return absl::UnimplementedError(
        "mode: bounded is not for several servers, each of which has only the "
        "steps of its own keys");
  }
  // The home decides who has created the namespace. The others take what it
  // has, also what an earlier call has left undone.
  namespaces_.ForgetKind(request.name_space);
  const absl::StatusOr<CreateNamespaceReply> home =
      servers_.At(servers.front(), request, limit);
  if (!home.ok() && !absl::IsAlreadyExists(home.status())) return home;
  CreateNamespaceRequest elsewhere = request;
  elsewhere.on_existing = OnExisting::kKeep;
  if (!home.ok() && servers.size() > 1) {
    ASSIGN_OR_RETURN(
        const NamespaceStatus status,
        servers_.At(servers.front(),
                    DescribeNamespaceRequest{.name_space = request.name_space},
                    limit));
    elsewhere.config = status.config;
  }
  const auto others = servers_.AtEach(
      AfterFirst(servers), [&](const std::string&) { return elsewhere; },
      limit);
  RETURN_IF_ERROR(home.status());
  std::vector<absl::Status> statuses = StatusesOf(others);
  absl::c_replace_if(statuses, IsBehindHome, absl::OkStatus());
  RETURN_IF_ERROR(MostActionableError(statuses));
  const auto learn = [&](const std::string& server, uint64_t uid) {
    namespaces_.LearnKind(request.name_space, server,
                          {uid, request.config.mirrored});
  };
  learn(servers.front(), home->uid);
  for (size_t i = 0; i < others.size(); ++i) {
    if (others[i].ok()) learn(servers[i + 1], others[i]->uid);
  }
  return home;
}

absl::StatusOr<NamespaceStatus> ClusterConnection::Route(
    const DescribeNamespaceRequest& request, const CallLimit& limit) {
  ASSIGN_OR_RETURN(const auto servers,
                   servers_.HomeFirst(request.name_space, limit));
  ASSIGN_OR_RETURN(std::vector<NamespaceStatus> statuses,
                   AskEach(servers, request, limit));
  KnownNamespaces::ByServer<uint64_t> uids;
  // The home's last: what it says counts.
  for (size_t i = servers.size(); i-- > 0;) {
    uids[servers[i]] = statuses[i].uid;
    namespaces_.LearnKind(request.name_space, servers[i], KindOf(statuses[i]));
  }
  if (statuses.front().config.mirrored) {
    statuses.resize(1);  // The others have the same.
  }
  NamespaceStatus total = SumOf(std::move(statuses));
  namespaces_.Learn(request.name_space, total.uid, total.config.mode,
                    std::move(uids));
  return total;
}

absl::StatusOr<ListNamespacesReply> ClusterConnection::Route(
    const ListNamespacesRequest& request, const CallLimit& limit) {
  ASSIGN_OR_RETURN(const auto servers, servers_.All(limit));
  ASSIGN_OR_RETURN(std::vector<ListNamespacesReply> pages,
                   AskEach(servers, request, limit));
  ASSIGN_OR_RETURN(const PlacementPtr placement, servers_.Placement(limit));
  pages.insert(pages.begin(), TakeHomes(*placement, servers, pages));
  return MergePages(std::move(pages), request.page_size);
}

// --- Kinds ----------------------------------------------------------------

absl::StatusOr<KnownNamespaces::Kind> ClusterConnection::KindAt(
    const std::string& server, const std::string& name_space,
    const CallLimit& limit) {
  if (const auto known = namespaces_.KindAt(name_space, server)) return *known;
  ASSIGN_OR_RETURN(
      const NamespaceStatus status,
      servers_.At(server, DescribeNamespaceRequest{.name_space = name_space},
                  limit));
  const KnownNamespaces::Kind kind = KindOf(status);
  namespaces_.LearnKind(name_space, server, kind);
  return kind;
}

bool ClusterConnection::IsMirrored(const std::string& name_space,
                                   const std::string& server,
                                   const CallLimit& limit) {
  if (const auto known = namespaces_.IsMirrored(name_space)) return *known;
  const auto kind = KindAt(server, name_space, limit);
  // A caller who may not know does not ask at every call.
  if (absl::IsPermissionDenied(kind.status())) {
    namespaces_.LearnNoKind(name_space);
  }
  return kind.ok() && kind->is_mirrored;
}

absl::StatusOr<bool> ClusterConnection::HasChanged(
    const std::string& server, const std::string& name_space, bool was_mirrored,
    const CallLimit& limit) {
  namespaces_.ForgetKindAt(name_space, server);
  const auto kind = KindAt(server, name_space, limit);
  if (absl::IsNotFound(kind.status())) return kind.status();
  return kind.ok() && kind->is_mirrored != was_mirrored;
}

}  // namespace tensorkv
