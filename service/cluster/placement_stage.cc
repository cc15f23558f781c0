#include "service/cluster/placement_stage.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/placement.h"
#include "contract/reason.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

absl::Status HasMoved() {
  return WithReason(
      absl::FailedPreconditionError(
          "the push was made before its keys moved to another server, which "
          "has the values to pull"),
      Reason::kOutcomeUnknown);
}

// Checks that the placement has these servers: so what the home names is of
// servers that it knows, and one that it knows no more has gone.
absl::Status CheckHas(
    const ClusterPlacement& placement,
    const google::protobuf::RepeatedPtrField<CreateSnapshotRequest::Share>&
        shares) {
  for (const CreateSnapshotRequest::Share& share : shares) {
    const std::string& server = share.server();
    const auto found =
        std::ranges::find(placement.servers, server, &ClusterServer::name);
    if (found != placement.servers.end()) continue;
    return absl::AbortedError(
        absl::StrCat("shares: placement ", placement.version,
                     " of the home does not have ", Quoted(server)));
  }
  return absl::OkStatus();
}

bool BringsTensors(Method method) {
  return method == Method::kInit || method == Method::kPush ||
         method == Method::kPushPull || method == Method::kSetState;
}

}  // namespace

absl::Status PlacementStage::CheckIsHere(const StagedCall& call) const {
  const bool is_watch = call.method == Method::kWatch;
  const bool is_here =
      !call.keys && !call.is_for_home && !call.shares && !is_watch;
  if (is_here) return absl::OkStatus();
  const auto view = known_.view();
  if (view == nullptr) return absl::OkStatus();
  // Who owns nothing any more has others' keys to tell of.
  if (is_watch) return view->CheckRank(std::nullopt);
  const std::optional<bool> is_of_all = IsOfAll(call.name_space);
  if (!is_of_all && BringsTensors(call.method)) return absl::OkStatus();
  if (is_of_all.value_or(false)) return view->CheckRank(call.rank);
  if (call.is_for_home) RETURN_IF_ERROR(view->Check(call.name_space, ""));
  // A share would lack the keys that are not restored yet.
  if (call.shares && call.shares->empty()) RETURN_IF_ERROR(view->CheckWhole());
  if (call.shares) RETURN_IF_ERROR(CheckHas(view->placement(), *call.shares));
  for (size_t i = 0; call.keys && i < call.keys->size(); ++i) {
    RETURN_IF_ERROR(view->Check(call.name_space, (*call.keys)[i]));
  }
  return absl::OkStatus();
}

absl::Status PlacementStage::Admit(const StagedCall& call) const {
  absl::Status status = CheckIsHere(call);
  if (ReasonOf(status) != Reason::kWrongServer) return status;
  const std::optional<CallId> call_id = call.call_id();
  if (call_id && knows_ && knows_(call.name_space, call.caller, *call_id)) {
    // The answer to a push is kept, but the values are elsewhere by now.
    return call.method == Method::kPushPull ? HasMoved() : absl::OkStatus();
  }
  RETURN_IF_ERROR(call.caller.unless_remembered);
  return status;
}

absl::StatusOr<ListReply> PlacementStage::List(
    const ListRequest& request,
    absl::FunctionRef<absl::StatusOr<ListReply>()> list) const {
  const std::string& name_space = request.namespace_();
  // A share of a snapshot has keys of the time when it was taken.
  if (request.at().uid() != 0 || IsOfAll(name_space).value_or(false)) {
    return list();
  }
  std::shared_ptr<const KnownPlacement::View> view = known_.view();
  if (view == nullptr) return list();
  for (;;) {
    RETURN_IF_ERROR(view->CheckWhole());
    ASSIGN_OR_RETURN(ListReply reply, list());
    const auto before = std::exchange(view, known_.view());
    // Keys may have come, or gone, since they were read.
    if (view != before) continue;
    // A key that comes to the server, or has been its own, is not.
    auto& keys = *reply.mutable_keys();
    const auto others =
        std::remove_if(keys.begin(), keys.end(), [&](const KeyStatus& key) {
          return ReasonOf(view->Check(name_space, key.key())) ==
                 Reason::kWrongServer;
        });
    keys.erase(others, keys.end());
    reply.set_placement_version(view->placement().version);
    return reply;
  }
}

}  // namespace tensorkv
