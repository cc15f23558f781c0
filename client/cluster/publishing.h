// Makes the parts of a call that publishes a snapshot of a cluster.

#ifndef TENSORKV_CLIENT_CLUSTER_PUBLISHING_H_
#define TENSORKV_CLIENT_CLUSTER_PUBLISHING_H_

#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cluster/cluster_snapshots.h"
#include "client/cluster/share_outcomes.h"
#include "contract/placement.h"
#include "contract/reason.h"
#include "contract/requests.h"

namespace tensorkv {

// Calls that may take a snapshot.
template <typename Request>
constexpr bool kMayPublish = std::is_same_v<Request, InitRequest> ||
                             std::is_same_v<Request, PushRequest> ||
                             std::is_same_v<Request, PushRowsRequest>;

// Returns whether the call is to take a whole snapshot, and no share of one.
template <typename Request>
bool TakesSnapshot(const Request& request) {
  if constexpr (kMayPublish<Request>) {
    return request.publish_as && request.publish_as->uid() == 0;
  }
  return false;
}

// Returns whether a snapshot of the cluster is made of shares, or of partitions
// that are not there.
inline bool IsOfShares(const ClusterPlacement& placement) {
  return placement.servers.size() > 1 || !placement.lost.empty();
}

// Checks that the call publishes no part of a snapshot: servers of a cluster do
// not know each other's.
template <typename Request>
absl::Status CheckIsNoPart(const Request& request) {
  if constexpr (kMayPublish<Request>) {
    if (request.publish_as->has_part()) {
      return absl::UnimplementedError(
          "publish_as: a part of a snapshot needs one server that has all keys "
          "of the namespace, the cluster has several");
    }
  }
  return absl::OkStatus();
}

// Returns whether a call that has been made may be made once more: what others
// have done since stays.
inline bool MayBeMadeAgain(const InitRequest& request) {
  return request.on_existing == OnExisting::kKeep;
}
inline bool MayBeMadeAgain(const PushRequest&) { return false; }

// Returns the terms on which a call takes one, as those of a CreateSnapshot.
template <typename Request>
CreateSnapshotRequest TermsOf(const Request& request) {
  const PublishAs& publish_as = *request.publish_as;
  CreateSnapshotRequest terms;
  terms.set_namespace_(request.name_space);
  terms.set_namespace_uid(request.namespace_uid);
  if (request.call_id) SetCallId(*request.call_id, terms);
  terms.set_series(publish_as.series());
  if (publish_as.has_number()) terms.set_number(publish_as.number());
  if (publish_as.has_expected_latest()) {
    terms.set_expected_latest(publish_as.expected_latest());
  }
  *terms.mutable_prefixes() = publish_as.prefixes();
  *terms.mutable_metadata() = publish_as.metadata();
  if (publish_as.has_time_to_live()) {
    *terms.mutable_time_to_live() = publish_as.time_to_live();
  }
  terms.set_keep_last(publish_as.keep_last());
  terms.set_dtype(publish_as.dtype());
  return terms;
}

// Returns the call that has each server take a share for the publication.
template <typename Request>
Request PartOf(const Request& request,
               const ClusterSnapshots::Publication& publication, int attempt) {
  Request part = request;
  NameAttempt("+", attempt, part);
  PublishAs& publish_as = part.publish_as.emplace();
  publish_as.set_series(publication.terms.series());
  *publish_as.mutable_prefixes() = publication.terms.prefixes();
  publish_as.set_number(publication.terms.number());
  publish_as.set_uid(publication.uid);
  publish_as.set_dtype(publication.terms.dtype());
  return part;
}

// Returns the error of a call that was made. One that may be made again may be
// so for a server that was restarted.
template <typename Request>
absl::Status NotPublished(const Request& request, const absl::Status& why) {
  if (MayBeMadeAgain(request) && ReasonOf(why) == Reason::kServerRestarted) {
    return why;
  }
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          "the call was made, and nobody can tell whether it was published: ",
          why.message())),
      Reason::kOutcomeUnknown);
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_PUBLISHING_H_
