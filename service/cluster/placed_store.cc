#include "service/cluster/placed_store.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

const std::string& KeyOf(const std::string& key) { return key; }
template <typename Entry>
const std::string& KeyOf(const Entry& entry) {
  return entry.key;
}

template <typename Keys>
absl::Status CheckKeys(const KnownPlacement::View& view,
                       const std::string& name_space, const Keys& keys) {
  for (const auto& key : keys) {
    RETURN_IF_ERROR(view.Check(name_space, KeyOf(key)));
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

// Checks that all keys that the call names are this server's; of a mirrored
// namespace, that the caller is.
template <typename Request>
absl::Status CheckPlaced(const KnownPlacement& known,
                         const IsMirrored& is_mirrored,
                         const Request& request) {
  const std::shared_ptr<const KnownPlacement::View> view = known.view();
  if (view == nullptr) return absl::OkStatus();
  if (is_mirrored && is_mirrored(request.name_space)) {
    return view->CheckRank(RankOf(request));
  }
  if constexpr (requires { request.entries; }) {
    return CheckKeys(*view, request.name_space, request.entries);
  } else {
    return CheckKeys(*view, request.name_space, request.keys);
  }
}

// Returns OK if `status` of CheckPlaced is, or the call was made when it was.
template <typename Request>
absl::Status OrKnown(absl::Status status, const KnowsCall& knows,
                     const Request& request, const CallContext& context) {
  if (ReasonOf(status) != Reason::kWrongServer) return status;
  if (request.call_id && knows &&
      knows(request.name_space, context.caller, *request.call_id)) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(context.caller.unless_remembered);
  return status;
}

template <typename Request>
absl::Status CheckPlacedOrKnown(const KnownPlacement& known,
                                const IsMirrored& is_mirrored,
                                const KnowsCall& knows, const Request& request,
                                const CallContext& context) {
  return OrKnown(CheckPlaced(known, is_mirrored, request), knows, request,
                 context);
}

absl::Status HasMoved() {
  return WithReason(
      absl::FailedPreconditionError(
          "the push was made before its keys moved to another server, which "
          "has the values to pull"),
      Reason::kOutcomeUnknown);
}

// Makes a call that may wait, by `start(request, context, done)`, unless
// `status` has an error.
template <typename Request, typename Reply, typename Start>
void PlacedWait(absl::Status status, Request request, CallContext context,
                ReplyCallback<Reply> done, Start start) {
  if (!status.ok()) return std::move(done)(std::move(status));
  start(std::move(request), std::move(context), std::move(done));
}

}  // namespace

void PlacedTensorStore::Init(InitRequest request, CallContext context,
                             ReplyCallback<InitReply> done) {
  absl::Status status =
      CheckPlacedOrKnown(known_, is_mirrored_, knows_, request, context);
  PlacedWait(std::move(status), std::move(request), std::move(context),
             std::move(done), std::bind_front(&TensorStore::Init, &inner_));
}

void PlacedTensorStore::Push(PushRequest request, CallContext context,
                             ReplyCallback<PushReply> done) {
  absl::Status status =
      CheckPlacedOrKnown(known_, is_mirrored_, knows_, request, context);
  PlacedWait(std::move(status), std::move(request), std::move(context),
             std::move(done), std::bind_front(&TensorStore::Push, &inner_));
}

void PlacedTensorStore::Pull(PullRequest request, CallContext context,
                             ReplyCallback<PullReply> done) {
  absl::Status status = CheckPlaced(known_, is_mirrored_, request);
  PlacedWait(std::move(status), std::move(request), std::move(context),
             std::move(done), std::bind_front(&TensorStore::Pull, &inner_));
}

// The answer to a push is kept, but the values are elsewhere by now.
void PlacedTensorStore::PushPull(PushRequest request, CallContext context,
                                 ReplyCallback<PullReply> done) {
  absl::Status status = CheckPlaced(known_, is_mirrored_, request);
  const bool is_here = status.ok();
  status = OrKnown(std::move(status), knows_, request, context);
  if (status.ok() && !is_here) status = HasMoved();
  PlacedWait(std::move(status), std::move(request), std::move(context),
             std::move(done), std::bind_front(&TensorStore::PushPull, &inner_));
}

absl::StatusOr<DeleteReply> PlacedTensorStore::Delete(
    DeleteRequest request, const CallContext& context) {
  RETURN_IF_ERROR(
      CheckPlacedOrKnown(known_, is_mirrored_, knows_, request, context));
  return inner_.Delete(std::move(request), context);
}

absl::StatusOr<ListReply> PlacedTensorStore::List(const ListRequest& request,
                                                  const CallContext& context) {
  if (is_mirrored_ && is_mirrored_(request.name_space)) {
    return inner_.List(request, context);
  }
  std::shared_ptr<const KnownPlacement::View> view = known_.view();
  if (view == nullptr) return inner_.List(request, context);
  for (;;) {
    RETURN_IF_ERROR(view->CheckWhole());
    ASSIGN_OR_RETURN(ListReply reply, inner_.List(request, context));
    const auto before = std::exchange(view, known_.view());
    // Keys may have come, or gone, since they were read.
    if (view != before) continue;
    // A key that comes to the server, or has been its own, is not.
    std::erase_if(reply.keys, [&](const KeyStatus& key) {
      return ReasonOf(view->Check(request.name_space, key.key)) ==
             Reason::kWrongServer;
    });
    reply.placement_version = view->placement().version;
    return reply;
  }
}

absl::StatusOr<StatReply> PlacedTensorStore::Stat(const StatRequest& request,
                                                  const CallContext& context) {
  RETURN_IF_ERROR(CheckPlaced(known_, is_mirrored_, request));
  return inner_.Stat(request, context);
}

absl::Status PlacedStaging::CheckInit(const InitRequest& request,
                                      const CallContext& context) {
  RETURN_IF_ERROR(
      CheckPlacedOrKnown(known_, is_mirrored_, knows_, request, context));
  return inner_.CheckInit(request, context);
}

absl::Status PlacedStaging::CheckPush(const PushRequest& request,
                                      const CallContext& context) {
  RETURN_IF_ERROR(
      CheckPlacedOrKnown(known_, is_mirrored_, knows_, request, context));
  return inner_.CheckPush(request, context);
}

absl::Status PlacedStaging::Allocate(absl::string_view name_space,
                                     absl::Span<Tensor* const> tensors,
                                     const CallContext& context) {
  return inner_.Allocate(name_space, tensors, context);
}

bool PlacedStaging::ReadsInPlace(absl::string_view name_space) {
  return inner_.ReadsInPlace(name_space);
}

}  // namespace tensorkv
