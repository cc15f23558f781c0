// Named snapshots of several servers.

#ifndef TENSORKV_CLIENT_CLUSTER_CLUSTER_SNAPSHOTS_H_
#define TENSORKV_CLIENT_CLUSTER_CLUSTER_SNAPSHOTS_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cluster/call_shares.h"
#include "client/cluster/cluster_servers.h"
#include "client/cluster/known_snapshots.h"
#include "client/cluster/split_layout.h"
#include "client/cluster/waits.h"
#include "client/internal/calls/task.h"
#include "contract/requests.h"

namespace tensorkv {

// Takes, reads and tells of snapshots as snapshot.proto says of clusters. The
// home of a namespace says what there is; of a mirrored namespace, and where
// there is one server, it has all of it. Thread-safe.
class ClusterSnapshots {
 public:
  // `servers` outlives it.
  explicit ClusterSnapshots(ClusterServers* servers) : servers_(*servers) {}

  // --- Taking ----------------------------------------------------------------

  // Bounds how often a snapshot is begun again because partitions move.
  static constexpr int kMostAttempts = 4;

  // A snapshot whose number is reserved.
  struct Publication {
    std::string home;
    // With the number, and without a call id.
    CreateSnapshotRequest terms;
    uint64_t uid = 0;
    // The servers that have shares since they have made their parts of a call.
    std::set<std::string> published_by;
  };
  // Reserves a number on these terms, for the attempt, counted from 0, to take
  // a snapshot. Errors: those of CreateSnapshot · Unavailable
  // (KEY_NOT_RESTORED): no snapshot can be whole now.
  Task<absl::StatusOr<Publication>> Begin(const CreateSnapshotRequest& terms,
                                          int attempt, const CallLimit& limit);
  // Has every server keep its share, unless it has, and the home name the
  // snapshot, once the shares together have each key once; tells the others
  // what has gone by that. Gives up if one refuses. Errors: those of
  // CreateSnapshot; also of a call that is repeated, and whose snapshot has
  // gone.
  Task<absl::StatusOr<CreateSnapshotReply>> Complete(
      const Publication& publication, const CallLimit& limit);
  // Has all servers let go of what they have, as far as they answer soon,
  // whatever has become of the call, and returns `why`. But a snapshot that the
  // home names, since the call is repeated, stays: returns its reply.
  Task<absl::StatusOr<CreateSnapshotReply>> GiveUp(
      const Publication& publication, const absl::Status& why,
      const CallLimit& limit);
  // Returns whether a snapshot on these terms that Complete has not taken may
  // be taken by another attempt. One that has gone may have been named, by a
  // call that is repeated now.
  static bool MayBeginAgain(const CreateSnapshotRequest& terms,
                            const absl::Status& why);
  // Takes a snapshot of no call. Errors: those of CreateSnapshot.
  Task<absl::StatusOr<CreateSnapshotReply>> Create(
      const CreateSnapshotRequest& terms, const CallLimit& limit);

  // --- Reading ---------------------------------------------------------------

  // Returns the snapshot that a call means; waits for it as `at` says. Errors:
  // those of DescribeSnapshot.
  Task<absl::StatusOr<KnownSnapshot>> Resolve(const std::string& name_space,
                                              const SnapshotReference& at,
                                              const CallLimit& limit);
  // Returns the layouts of the keys of a snapshot that are in slices; null
  // where the cluster has none. Errors: those of List.
  Task<absl::StatusOr<SplitLayoutsPtr>> Layouts(const std::string& name_space,
                                                const SnapshotReference& at,
                                                const CallLimit& limit);
  // Make a Pull, a PullRows or a Stat, and a List, of a snapshot. Errors: also
  // NotFound (SNAPSHOT_LOST): a server has it no more.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> Read(const Request& request,
                                              const CallLimit& limit);
  // The List shows slices.
  Task<absl::StatusOr<ListReply>> List(const ListRequest& request,
                                       const CallLimit& limit);

  // --- What there is ---------------------------------------------------------

  // Make the call at the home; a Describe adds what all servers retain, a
  // Delete has the others follow. A Create is one of the home alone.
  Task<absl::StatusOr<DescribeSnapshotReply>> Make(
      const DescribeSnapshotRequest& request, const CallLimit& limit);
  Task<absl::StatusOr<DeleteSnapshotReply>> Make(
      const DeleteSnapshotRequest& request, const CallLimit& limit);
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> Make(const Request& request,
                                              const CallLimit& limit) {
    return servers_.AtHome(request, limit);
  }

 private:
  // Keeps how the parts of a reading have ended.
  template <typename Request>
  struct Reading {
    ReplyTo<Request> reply = {};
    // The places of entries that the server does not have that was asked.
    std::vector<size_t> missing;
  };
  // Makes the pieces of a reading of a snapshot that several servers have.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> ReadPieces(
      const CallShares<Request>& call, const KnownSnapshot& known,
      const CallLimit& limit);
  // Reads each share at its server.
  template <typename Request>
  Task<absl::Status> ReadShares(const CallShares<Request>& call,
                                const std::vector<CallShare>& shares,
                                const CallLimit& limit,
                                Reading<Request>& reading);
  // Asks all servers for the keys at `missing`, and returns by server what is
  // to be read there. Errors: NotFound (KEY_NOT_FOUND, SNAPSHOT_LOST).
  template <typename Request>
  Task<absl::StatusOr<std::vector<CallShare>>> Locate(
      const Request& request, const KnownSnapshot& known,
      absl::Span<const size_t> missing, const CallLimit& limit);
  // Asks all servers of the snapshot. Errors: NotFound (SNAPSHOT_LOST).
  template <typename Request>
  Task<absl::StatusOr<std::vector<ReplyTo<Request>>>> AskAll(
      const Request& request, const KnownSnapshot& known,
      const CallLimit& limit);
  // Returns why a server has no share of it: what the home says, if it has gone
  // there, too.
  Task<absl::Status> WhyLost(const std::string& name_space,
                             const KnownSnapshot& known,
                             const std::string& server, const CallLimit& limit);
  // The shares of a publication.
  struct Prepared {
    // Has the home first.
    std::vector<std::string> servers;
    std::vector<CreateSnapshotReply> shares;
  };
  // Has the servers of a placement keep their shares, and those of newer ones
  // until the shares are of one. Errors: those of CreateSnapshot · Aborted: no
  // placement is known that the shares are of.
  Task<absl::StatusOr<Prepared>> Prepare(const Publication& publication,
                                         const CallLimit& limit);
  // Checks that every partition is at its owner, as far as the cluster says.
  // Errors: Unavailable (KEY_NOT_RESTORED).
  Task<absl::Status> CheckWhole(const CallLimit& limit);
  // Returns what the home says of the snapshot. Errors: NotFound: it has not
  // named it.
  Task<absl::StatusOr<v1::SnapshotStatus>> FindNamed(
      const Publication& publication, const CallLimit& limit);
  // Has those let go of their shares that are in no partition of the snapshot.
  // Returns OK.
  Task<absl::Status> DropOthers(const Publication& publication,
                                const Prepared& prepared,
                                const CallLimit& limit);
  // Has the home name the snapshot.
  Task<absl::StatusOr<CreateSnapshotReply>> Name(const Publication& publication,
                                                 const Prepared& prepared,
                                                 const CallLimit& limit);
  // Tells servers that these uids have gone, of the request's namespace and
  // series, as far as they answer soon. Returns OK.
  template <typename Request>
  Task<absl::Status> TellGone(absl::Span<const std::string> servers,
                              const Request& of,
                              absl::Span<const uint64_t> uids,
                              const CallLimit& limit);

  // Bounds how long a call waits for what its result does not depend on.
  static constexpr absl::Duration kLongestExtra = absl::Seconds(1);

  ClusterServers& servers_;
  KnownSnapshots known_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_CLUSTER_SNAPSHOTS_H_
