#include "service/cluster/snapshot_sweep.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "contract/grpc_status.h"
#include "contract/reason.h"
#include "tensorkv/v1/peer.grpc.pb.h"

namespace tensorkv {
namespace {

// Says for how long what nobody names may stay.
constexpr absl::Duration kPauseOfSweeps = absl::Seconds(5);

// A server that does not answer is asked again by the next sweep.
constexpr absl::Duration kLongestQuestion = absl::Seconds(2);

absl::Status InNoCluster() {
  return absl::FailedPreconditionError("the server is in no cluster");
}

// Returns whether the error says that nobody has answered: it is no server's.
bool IsSilence(const absl::Status& status) {
  const bool is_of_calls =
      absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  return is_of_calls && ReasonOf(status) == Reason::kUnspecified;
}

// One sweep. Used by one thread.
class Sweep {
 public:
  Sweep(const KnownPlacement& known, SharePeers& peers, SnapshotShares& shares)
      : known_(known), peers_(peers), shares_(shares) {}

  void AskHomes() {
    for (const v1::CheckSharesRequest& request : shares_.SharesToCheck()) {
      if (!Look()) return;
      const auto response = Ask(HomeOf(request.namespace_()), request);
      if (response.ok()) shares_.DropShares(request, *response);
    }
  }
  void AskServers() {
    for (const v1::FindSharesRequest& request : shares_.SharesToFind()) {
      if (!Look()) return;
      if (HomeOf(request.namespace_()).name != view_->server_name()) continue;
      const auto response = AskForShares(request);
      if (response.ok()) shares_.CloseLost(request, *response);
    }
  }

 private:
  // Looks at the newest placement; returns false if there is none.
  bool Look() {
    view_ = known_.view();
    return view_ != nullptr && !view_->placement().owners.empty();
  }
  const ClusterServer& HomeOf(const std::string& name_space) const {
    const ClusterPlacement& placement = view_->placement();
    return placement.servers[OwnerOf(placement, name_space, "")];
  }
  // Asks the server, be it this one. One that has not answered is not asked
  // again: the others would wait for it. One that cannot answer about one
  // namespace may about others.
  template <typename Request>
  auto Ask(const ClusterServer& server, const Request& request)
      -> decltype(std::declval<SharePeers&>().Ask(server, request)) {
    if (server.name == view_->server_name()) {
      return AnswerAboutShares(known_, request, shares_);
    }
    if (silent_.contains(server.name)) {
      return absl::UnavailableError("it has not answered before");
    }
    auto response = peers_.Ask(server, request);
    if (IsSilence(response.status())) silent_.insert(server.name);
    return response;
  }
  // A server that is in the cluster no more has none.
  absl::StatusOr<v1::FindSharesResponse> AskForShares(
      const v1::FindSharesRequest& request) {
    const auto& servers = view_->placement().servers;
    const auto found =
        std::ranges::find(servers, request.server(), &ClusterServer::name);
    if (found != servers.end()) return Ask(*found, request);
    v1::FindSharesResponse response;
    *response.mutable_missing() = request.uids();
    return response;
  }

  const KnownPlacement& known_;
  SharePeers& peers_;
  SnapshotShares& shares_;
  std::shared_ptr<const KnownPlacement::View> view_;
  std::set<std::string> silent_;
};

}  // namespace

template <typename Response, typename Call>
absl::StatusOr<Response> ConnectedSharePeers::AskBy(const ClusterServer& server,
                                                    Call call) {
  const std::unique_ptr<v1::Peer::Stub> stub =
      v1::Peer::NewStub(connect_(server.address));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kLongestQuestion));
  {
    MutexLock lock(&mutex_);
    if (is_cancelled_) return absl::CancelledError("the server stops");
    asked_ = &context;
  }
  Response response;
  const grpc::Status status = call(*stub, &context, &response);
  {
    MutexLock lock(&mutex_);
    asked_ = nullptr;
  }
  RETURN_IF_ERROR(FromGrpcStatus(status));
  return response;
}

absl::StatusOr<v1::CheckSharesResponse> ConnectedSharePeers::Ask(
    const ClusterServer& home, const v1::CheckSharesRequest& request) {
  return AskBy<v1::CheckSharesResponse>(
      home, [&](v1::Peer::Stub& stub, grpc::ClientContext* context,
                v1::CheckSharesResponse* response) {
        return stub.CheckShares(context, request, response);
      });
}

absl::StatusOr<v1::FindSharesResponse> ConnectedSharePeers::Ask(
    const ClusterServer& server, const v1::FindSharesRequest& request) {
  return AskBy<v1::FindSharesResponse>(
      server, [&](v1::Peer::Stub& stub, grpc::ClientContext* context,
                  v1::FindSharesResponse* response) {
        return stub.FindShares(context, request, response);
      });
}

void ConnectedSharePeers::Cancel() {
  MutexLock lock(&mutex_);
  is_cancelled_ = true;
  if (asked_ != nullptr) asked_->TryCancel();
}

absl::StatusOr<v1::CheckSharesResponse> AnswerAboutShares(
    const KnownPlacement& known, const v1::CheckSharesRequest& request,
    const SnapshotShares& shares) {
  const auto view = known.view();
  if (view == nullptr) return InNoCluster();
  RETURN_IF_ERROR(view->Check(request.namespace_(), ""));
  return shares.CheckShares(request);
}

absl::StatusOr<v1::FindSharesResponse> AnswerAboutShares(
    const KnownPlacement& known, const v1::FindSharesRequest& request,
    const SnapshotShares& shares) {
  const auto view = known.view();
  if (view == nullptr) return InNoCluster();
  if (view->server_name() != request.server()) {
    return absl::FailedPreconditionError(
        absl::StrCat("expected a question to server ", view->server_name(),
                     ", got one to ", request.server()));
  }
  return shares.FindShares(request);
}

void SweepShares(const KnownPlacement& known, SharePeers& peers,
                 SnapshotShares& shares) {
  Sweep sweep(known, peers, shares);
  sweep.AskHomes();
  sweep.AskServers();
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
  peers_.Cancel();
  if (ended) ended->join();
}

void SnapshotSweep::Run() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      if (!is_stopped_) changed_.WaitWithTimeout(&mutex_, kPauseOfSweeps);
      if (is_stopped_) return;
    }
    SweepShares(known_, peers_, shares_);
  }
}

}  // namespace tensorkv
