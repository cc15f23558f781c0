#include "service/cluster/snapshot_sweep.h"

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "contract/grpc_status.h"
#include "tensorkv/v1/peer.grpc.pb.h"

namespace tensorkv {
namespace {

// Says for how long what nobody names may stay.
constexpr absl::Duration kPauseOfSweeps = absl::Seconds(5);

// A home that does not answer is asked again by the next sweep.
constexpr absl::Duration kLongestQuestion = absl::Seconds(2);

}  // namespace

AskHome MakeAskHome(ConnectPeer connect) {
  return [connect = std::move(connect)](const ClusterServer& home,
                                        const v1::CheckSharesRequest& request)
             -> absl::StatusOr<v1::CheckSharesResponse> {
    const std::unique_ptr<v1::Peer::Stub> stub =
        v1::Peer::NewStub(connect(home.address));
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kLongestQuestion));
    v1::CheckSharesResponse response;
    RETURN_IF_ERROR(
        FromGrpcStatus(stub->CheckShares(&context, request, &response)));
    return response;
  };
}

absl::StatusOr<v1::CheckSharesResponse> AnswerAsHome(
    const KnownPlacement& known, const v1::CheckSharesRequest& request,
    SnapshotShares& store) {
  const auto view = known.view();
  if (view == nullptr) {
    return absl::FailedPreconditionError("the server is in no cluster");
  }
  RETURN_IF_ERROR(view->Check(request.namespace_(), ""));
  return store.CheckShares(request);
}

void SweepShares(const KnownPlacement& known, const AskHome& ask,
                 SnapshotShares& store) {
  // Those that have not answered are not asked again: the server may end.
  std::set<std::string> silent;
  for (const v1::CheckSharesRequest& request : store.SharesToCheck()) {
    const auto view = known.view();
    if (view == nullptr || view->placement().owners.empty()) return;
    const ClusterPlacement& placement = view->placement();
    const ClusterServer& home =
        placement.servers[OwnerOf(placement, request.namespace_(), "")];
    if (silent.contains(home.name)) continue;
    const absl::StatusOr<v1::CheckSharesResponse> response =
        home.name == view->server_name() ? AnswerAsHome(known, request, store)
                                         : ask(home, request);
    if (response.ok()) {
      store.DropShares(request, *response);
    } else {
      silent.insert(home.name);
    }
  }
}

void SnapshotSweep::Start() {
  MutexLock lock(&mutex_);
  if (is_stopped_ || thread_) return;
  thread_.emplace([this] { Run(); });
}

void SnapshotSweep::Stop() {
  std::optional<std::thread> ended;
  {
    MutexLock lock(&mutex_);
    is_stopped_ = true;
    changed_.SignalAll();
    ended = std::exchange(thread_, std::nullopt);
  }
  if (ended) ended->join();
}

void SnapshotSweep::Run() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      if (!is_stopped_) changed_.WaitWithTimeout(&mutex_, kPauseOfSweeps);
      if (is_stopped_) return;
    }
    sweep_();
  }
}

}  // namespace tensorkv
