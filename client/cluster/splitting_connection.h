// Large tensors on several servers of a cluster.

#ifndef TENSORKV_CLIENT_CLUSTER_SPLITTING_CONNECTION_H_
#define TENSORKV_CLIENT_CLUSTER_SPLITTING_CONNECTION_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cluster/call_shares.h"
#include "client/cluster/cluster_connection.h"
#include "client/cluster/split_entries.h"
#include "client/cluster/split_keys.h"
#include "client/cluster/waits.h"
#include "client/connection.h"
#include "client/internal/calls/awaited.h"
#include "client/internal/calls/task.h"

namespace tensorkv {

// Turns calls about keys that are in slices (cluster.proto) into calls about
// the slices, and joins their answers. Where the cluster has no `split_bytes`
// it passes calls on as they are. Thread-safe.
//
// Which keys are in slices is read when a namespace is first used, and again
// when a call shows that it has changed: an Init or Delete, a push that may be
// the first to a large key, a call that does not find a key. A call that waits
// for keys that do not exist looks every second whether they are in slices.
//
// A key in slices is as old as its oldest slice: that is its version. Pushes
// bring encoded tensors to no such key (Unimplemented). Its KeyStatus has no
// digest.
//
// Which keys of a snapshot are in slices, the snapshot tells. A call that reads
// the latest one reads a later one where that has gone meanwhile.
//
// Errors: those of ClusterConnection; they name the key, not the slice.
class SplittingConnection final : public TaskConnection {
 public:
  explicit SplittingConnection(std::unique_ptr<ClusterConnection> inner)
      : inner_(std::move(inner)) {}

 private:
  Task<absl::Status> Make(AnyCall call, CallOptions options,
                          CallThreads* threads) override;
  template <typename Request>
  Task<absl::Status> MakeAs(const Request& request, ReplyTo<Request>& reply,
                            const CallLimit& limit);
  // Makes a call that reads a snapshot, once it is known which one.
  template <typename Request>
  Task<absl::Status> MakeAtSnapshot(const Request& request,
                                    ReplyTo<Request>& reply,
                                    const CallLimit& limit);
  // Makes a call as it is; values are received into `destinations`.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> Pass(
      const Request& request, const CallLimit& limit,
      absl::Span<const Destination> destinations = {}) {
    CallOptions options = limit.Options();
    options.destinations = destinations;
    return MakeCall(*inner_, request, std::move(options), limit.threads);
  }
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> Route(
      const Request& request, const ClusterPlacement& placement,
      const CallLimit& limit);
  // Makes a call whose keys exist, or are waited for. Reads newer layouts, and
  // makes the call again, where it does not find a key.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> MakeOfKeys(
      const Request& request, const ClusterPlacement& placement,
      const CallLimit& limit);
  // Waits until all keys of a call exist, reading the layouts again and again.
  // Returns the last layouts. Errors: DeadlineExceeded · those of a call that
  // waits for a key, but that its time is over or a server does not answer.
  template <typename Request>
  Task<absl::StatusOr<SplitLayoutsPtr>> AwaitKeys(const Request& request,
                                                  const SplitLayoutsPtr& known,
                                                  const CallLimit& limit);
  // Waits for a key, or a slice, of that name, for a second at most.
  Task<absl::Status> AwaitKey(const PullRequest& request,
                              const std::string& key, const CallLimit& limit);
  // Makes a call with the keys of `layouts` as slices, and the others whole.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> MakeBy(
      const SplitLayouts& layouts, const Request& request,
      const CallLimit& limit, absl::Span<const Destination> destinations = {});
  // Creates keys, whole or in slices.
  Task<absl::StatusOr<InitReply>> CreateKeys(const InitRequest& request,
                                             const ClusterPlacement& placement,
                                             const CallLimit& limit);
  Task<absl::StatusOr<DeleteReply>> Delete(const DeleteRequest& request,
                                           const CallLimit& limit);
  Task<absl::StatusOr<ListReply>> List(const ListRequest& request,
                                       const CallLimit& limit);
  // Returns the statuses of those keys that have all their slices.
  Task<absl::StatusOr<StatReply>> StatThoseWhole(const SplitLayouts& layouts,
                                                 const StatRequest& request,
                                                 const CallLimit& limit);

  // Returns the layouts by which a call can be made. Reads them again where the
  // call may be about a key whose layout is not known.
  template <typename Request>
  Task<absl::StatusOr<SplitLayoutsPtr>> LayoutsFor(
      const Request& request, const ClusterPlacement& placement,
      const CallLimit& limit);
  // Returns the layouts of the keys of a snapshot, whose uid is known.
  Task<absl::StatusOr<SplitLayoutsPtr>> LayoutsAt(const std::string& name_space,
                                                  const SnapshotReference& at,
                                                  const CallLimit& limit) {
    const auto list = [&](const ListRequest& page) {
      return Pass(page, limit);
    };
    co_return co_await keys_.At(name_space, at, list);
  }
  // Reads the layouts of a namespace from the servers.
  Task<absl::StatusOr<SplitLayoutsPtr>> Refresh(const std::string& name_space,
                                                const CallLimit& limit) {
    const auto list = [&](const ListRequest& page) {
      return Pass(page, limit);
    };
    co_return co_await keys_.Refresh(name_space, list);
  }
  // Returns whether a push may be to a key in slices that `layouts` lacks.
  bool MayBeUnknown(const PushRequest& request, const SplitLayouts& layouts,
                    const ClusterPlacement& placement) const;
  // Returns the layouts of the keys that are to be created in slices. Appends
  // to `removed` the slices that are to be replaced.
  Task<absl::StatusOr<SplitLayouts>> PlanCreation(
      const InitRequest& request, const ClusterPlacement& placement,
      const CallLimit& limit, std::vector<std::string>& removed);
  // Asks the servers, by a Stat, whether a key exists that is not in slices.
  Task<absl::StatusOr<bool>> QueryIsWhole(const std::string& name_space,
                                          const std::string& key,
                                          const CallLimit& limit);
  // Checks, before any server gets the request, that no key in slices would get
  // a rule that needs whole keys. Not every server has a slice to refuse it
  // for. Errors: InvalidArgument.
  Task<absl::Status> CheckTakesRule(const SetRuleRequest& request,
                                    const CallLimit& limit);
  // Checks, before any server gets the request, that a namespace with keys in
  // slices gets no gradient guard. Errors: InvalidArgument.
  Task<absl::Status> CheckTakesGuard(const UpdateNamespaceRequest& request,
                                     const CallLimit& limit);
  // Asks the servers, by a DescribeNamespace, whether new keys of the namespace
  // may be in slices: its gradient guard and its rules allow it.
  Task<absl::StatusOr<bool>> QueryAllowsSlices(const std::string& name_space,
                                               const CallLimit& limit);

  const std::unique_ptr<ClusterConnection> inner_;
  SplitKeys keys_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_SPLITTING_CONNECTION_H_
