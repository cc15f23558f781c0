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

KnownNamespaces::Kind KindOf(const NamespaceStatus& status) {
  return {.uid = status.uid(), .is_mirrored = status.config().mirrored()};
}

DescribeNamespaceRequest RequestToDescribe(const std::string& name_space) {
  DescribeNamespaceRequest request;
  request.set_namespace_(name_space);
  return request;
}

}  // namespace

absl::StatusOr<CreateNamespaceReply> ClusterConnection::Route(
    const CreateNamespaceRequest& request, const CallLimit& limit) {
  ASSIGN_OR_RETURN(const auto servers,
                   servers_.HomeFirst(request.namespace_(), limit));
  if (request.config().mode() == v1::MODE_BOUNDED && servers.size() > 1) {
    return absl::UnimplementedError(
        "mode: bounded is not for several servers, each of which has only the "
        "steps of its own keys");
  }
  // The home decides who has created the namespace. The others take what it
  // has, also what an earlier call has left undone.
  namespaces_.ForgetKind(request.namespace_());
  const absl::StatusOr<CreateNamespaceReply> home =
      servers_.At(servers.front(), request, limit);
  if (!home.ok() && !absl::IsAlreadyExists(home.status())) return home;
  CreateNamespaceRequest elsewhere = request;
  elsewhere.set_on_existing(v1::ON_EXISTING_KEEP);
  if (!home.ok() && servers.size() > 1) {
    ASSIGN_OR_RETURN(
        DescribeNamespaceReply reply,
        servers_.At(servers.front(), RequestToDescribe(request.namespace_()),
                    limit));
    elsewhere.mutable_config()->Swap(reply.mutable_status()->mutable_config());
  }
  const auto others = servers_.AtEach(
      AfterFirst(servers), [&](const std::string&) { return elsewhere; },
      limit);
  RETURN_IF_ERROR(home.status());
  std::vector<absl::Status> statuses = StatusesOf(others);
  absl::c_replace_if(statuses, IsBehindHome, absl::OkStatus());
  RETURN_IF_ERROR(MostActionableError(statuses));
  const auto learn = [&](const std::string& server, uint64_t uid) {
    namespaces_.LearnKind(request.namespace_(), server,
                          {uid, request.config().mirrored()});
  };
  learn(servers.front(), home->uid());
  for (size_t i = 0; i < others.size(); ++i) {
    if (others[i].ok()) learn(servers[i + 1], others[i]->uid());
  }
  return home;
}

absl::StatusOr<DescribeNamespaceReply> ClusterConnection::Route(
    const DescribeNamespaceRequest& request, const CallLimit& limit) {
  ASSIGN_OR_RETURN(const auto servers,
                   servers_.HomeFirst(request.namespace_(), limit));
  ASSIGN_OR_RETURN(std::vector<DescribeNamespaceReply> replies,
                   AskEach(servers, request, limit));
  KnownNamespaces::ByServer<uint64_t> uids;
  // The home's last: what it says counts.
  for (size_t i = servers.size(); i-- > 0;) {
    const NamespaceStatus& status = replies[i].status();
    uids[servers[i]] = status.uid();
    namespaces_.LearnKind(request.namespace_(), servers[i], KindOf(status));
  }
  if (replies.front().status().config().mirrored()) {
    replies.resize(1);  // The others have the same.
  }
  DescribeNamespaceReply total = SumOf(std::move(replies));
  namespaces_.Learn(request.namespace_(), total.status().uid(),
                    FromProto(total.status().config().mode()), std::move(uids));
  return total;
}

absl::StatusOr<ListNamespacesReply> ClusterConnection::Route(
    const ListNamespacesRequest& request, const CallLimit& limit) {
  ASSIGN_OR_RETURN(const auto servers, servers_.All(limit));
  ASSIGN_OR_RETURN(std::vector<ListNamespacesReply> pages,
                   AskEach(servers, request, limit));
  ASSIGN_OR_RETURN(const PlacementPtr placement, servers_.Placement(limit));
  pages.insert(pages.begin(), TakeHomes(*placement, servers, pages));
  return MergePages(std::move(pages), request.page_size());
}

// --- Kinds ----------------------------------------------------------------

absl::StatusOr<KnownNamespaces::Kind> ClusterConnection::KindAt(
    const std::string& server, const std::string& name_space,
    const CallLimit& limit) {
  if (const auto known = namespaces_.KindAt(name_space, server)) return *known;
  ASSIGN_OR_RETURN(const DescribeNamespaceReply reply,
                   servers_.At(server, RequestToDescribe(name_space), limit));
  const KnownNamespaces::Kind kind = KindOf(reply.status());
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
