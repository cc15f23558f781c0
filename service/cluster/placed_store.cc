#include "service/cluster/placed_store.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

template <typename Keys>
absl::Status CheckKeys(const KnownPlacement::View& view,
                       const std::string& name_space, const Keys& keys) {
  for (const auto& key : keys) {
    RETURN_IF_ERROR(view.Check(name_space, KeyIn(key)));
  }
  return absl::OkStatus();
}

template <typename Request>
std::optional<uint32_t> RankOf(const Request& request) {
  if constexpr (requires { request.worker; }) {
    if (request.worker) return request.worker->rank;
  }
  return std::nullopt;
}

absl::Status HasMoved() {
  return WithReason(
      absl::FailedPreconditionError(
          "the push was made before its keys moved to another server, which "
          "has the values to pull"),
      Reason::kOutcomeUnknown);
}

}  // namespace

template <typename Request>
absl::Status PlacedStore::CheckIsHere(const Request& request) const {
  const auto view = known_.view();
  if (view == nullptr) return absl::OkStatus();
  if (IsOfAll(NamespaceIn(request))) {
    return view->CheckRank(RankOf(request));
  }
  return CheckKeys(*view, NamespaceIn(request), EntriesIn(request));
}

template <typename Request>
absl::Status PlacedStore::OrKnown(absl::Status status, const Request& request,
                                  const CallContext& context) const {
  if (ReasonOf(status) != Reason::kWrongServer) return status;
  const std::optional<CallId> call_id = CallIdIn(request);
  if (call_id && knows_ &&
      knows_(NamespaceIn(request), context.caller, *call_id)) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(context.caller.unless_remembered);
  return status;
}

void PlacedStore::Init(InitRequest request, CallContext context,
                       ReplyCallback<InitReply> done) {
  const absl::Status status = Check(request, context);
  if (!status.ok()) return std::move(done)(status);
  inner_.Init(std::move(request), std::move(context), std::move(done));
}

void PlacedStore::Push(PushRequest request, CallContext context,
                       ReplyCallback<PushReply> done) {
  const absl::Status status = Check(request, context);
  if (!status.ok()) return std::move(done)(status);
  inner_.Push(std::move(request), std::move(context), std::move(done));
}

void PlacedStore::Pull(PullRequest request, CallContext context,
                       ReplyCallback<PullReply> done) {
  const absl::Status status = CheckIsHere(request);
  if (!status.ok()) return std::move(done)(status);
  inner_.Pull(std::move(request), std::move(context), std::move(done));
}

// The answer to a push is kept, but the values are elsewhere by now.
void PlacedStore::PushPull(PushPullRequest request, CallContext context,
                           ReplyCallback<PullReply> done) {
  absl::Status status = CheckIsHere(request);
  const bool is_here = status.ok();
  status = OrKnown(std::move(status), request, context);
  if (status.ok() && !is_here) status = HasMoved();
  if (!status.ok()) return std::move(done)(status);
  inner_.PushPull(std::move(request), std::move(context), std::move(done));
}

void PlacedStore::SetState(SetStateRequest request, CallContext context,
                           ReplyCallback<SetStateReply> done) {
  const absl::Status status = Check(request, context);
  if (!status.ok()) return std::move(done)(status);
  inner_.SetState(std::move(request), std::move(context), std::move(done));
}

void PlacedStore::GetState(GetStateRequest request, CallContext context,
                           ReplyCallback<GetStateReply> done) {
  const absl::Status status = CheckIsHere(request);
  if (!status.ok()) return std::move(done)(status);
  inner_.GetState(std::move(request), std::move(context), std::move(done));
}

absl::StatusOr<DeleteReply> PlacedStore::Delete(DeleteRequest request,
                                                const CallContext& context) {
  RETURN_IF_ERROR(Check(request, context));
  return inner_.Delete(std::move(request), context);
}

absl::StatusOr<ListReply> PlacedStore::List(const ListRequest& request,
                                            const CallContext& context) {
  if (IsOfAll(request.namespace_())) return inner_.List(request, context);
  std::shared_ptr<const KnownPlacement::View> view = known_.view();
  if (view == nullptr) return inner_.List(request, context);
  for (;;) {
    RETURN_IF_ERROR(view->CheckWhole());
    ASSIGN_OR_RETURN(ListReply reply, inner_.List(request, context));
    const auto before = std::exchange(view, known_.view());
    // Keys may have come, or gone, since they were read.
    if (view != before) continue;
    // A key that comes to the server, or has been its own, is not.
    auto& keys = *reply.mutable_keys();
    const auto others =
        std::remove_if(keys.begin(), keys.end(), [&](const KeyStatus& key) {
          return ReasonOf(view->Check(request.namespace_(), key.key())) ==
                 Reason::kWrongServer;
        });
    keys.erase(others, keys.end());
    reply.set_placement_version(view->placement().version);
    return reply;
  }
}

absl::StatusOr<StatReply> PlacedStore::Stat(const StatRequest& request,
                                            const CallContext& context) {
  RETURN_IF_ERROR(CheckIsHere(request));
  return inner_.Stat(request, context);
}

absl::Status PlacedStore::CheckInit(const InitRequest& request,
                                    const CallContext& context) {
  RETURN_IF_ERROR(Check(request, context));
  return staging_.CheckInit(request, context);
}

absl::Status PlacedStore::CheckPush(const PushRequest& request,
                                    const CallContext& context) {
  RETURN_IF_ERROR(Check(request, context));
  return staging_.CheckPush(request, context);
}

absl::Status PlacedStore::CheckSetState(const SetStateRequest& request,
                                        const CallContext& context) {
  RETURN_IF_ERROR(Check(request, context));
  return staging_.CheckSetState(request, context);
}

}  // namespace tensorkv
