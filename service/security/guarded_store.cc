#include "service/security/guarded_store.h"

#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename Reply>
const absl::Status& StatusOf(const absl::StatusOr<Reply>& reply) {
  return reply.status();
}

// Records the call for the log of slow calls; `call_id` is asked for only where
// there is one.
template <typename CallIdFunction>
void RecordCall(const CallContext& context, absl::string_view name_space,
                CallIdFunction call_id) {
  if (context.caller.record == nullptr) return;
  context.caller.record->SetCall(
      name_space.empty() ? kDefaultNamespace : name_space, call_id());
}

// Makes a call by `ask` if the caller may, and has it audited.
template <typename Ask>
auto Guarded(const AccessControl& access, Method method,
             absl::string_view name_space, const CallContext& context, Ask ask)
    -> decltype(ask()) {
  RETURN_IF_ERROR(access.Check(method, name_space, context.caller));
  RecordCall(context, name_space, [] { return std::nullopt; });
  auto reply = ask();
  access.Audit(method, name_space, context.caller, StatusOf(reply));
  return reply;
}

// Returns nothing if the call names none.
absl::string_view NamespaceOf(const AnyCall& call) {
  return call.Visit([](const auto& request, auto&) -> absl::string_view {
    if constexpr (kHasNamespace<std::remove_cvref_t<decltype(request)>>) {
      return NamespaceIn(request);
    }
    return {};
  });
}

// Makes a call that may wait, by `start(request, context, done)`, if the caller
// may.
template <typename Request, typename Reply, typename Start>
void GuardedWait(const AccessControl& access, Method method, Request request,
                 CallContext context, ReplyCallback<Reply> done, Start start) {
  absl::Status status =
      access.Check(method, NamespaceIn(request), context.caller);
  if (!status.ok()) return std::move(done)(std::move(status));
  RecordCall(context, NamespaceIn(request), [&] { return CallIdIn(request); });
  start(std::move(request), std::move(context), std::move(done));
}

}  // namespace

void GuardedTensorStore::Init(InitRequest request, CallContext context,
                              ReplyCallback<InitReply> done) {
  GuardedWait(access_, Method::kInit, std::move(request), std::move(context),
              std::move(done), std::bind_front(&TensorStore::Init, &inner_));
}

void GuardedTensorStore::Push(PushRequest request, CallContext context,
                              ReplyCallback<PushReply> done) {
  GuardedWait(access_, Method::kPush, std::move(request), std::move(context),
              std::move(done), std::bind_front(&TensorStore::Push, &inner_));
}

void GuardedTensorStore::Pull(PullRequest request, CallContext context,
                              ReplyCallback<PullReply> done) {
  GuardedWait(access_, Method::kPull, std::move(request), std::move(context),
              std::move(done), std::bind_front(&TensorStore::Pull, &inner_));
}

void GuardedTensorStore::PushPull(PushPullRequest request, CallContext context,
                                  ReplyCallback<PullReply> done) {
  GuardedWait(access_, Method::kPushPull, std::move(request),
              std::move(context), std::move(done),
              std::bind_front(&TensorStore::PushPull, &inner_));
}

void GuardedTensorStore::SetState(SetStateRequest request, CallContext context,
                                  ReplyCallback<SetStateReply> done) {
  GuardedWait(access_, Method::kSetState, std::move(request),
              std::move(context), std::move(done),
              std::bind_front(&TensorStore::SetState, &inner_));
}

void GuardedTensorStore::GetState(GetStateRequest request, CallContext context,
                                  ReplyCallback<GetStateReply> done) {
  GuardedWait(access_, Method::kGetState, std::move(request),
              std::move(context), std::move(done),
              std::bind_front(&TensorStore::GetState, &inner_));
}

absl::StatusOr<DeleteReply> GuardedTensorStore::Delete(
    DeleteRequest request, const CallContext& context) {
  const std::string name_space = request.namespace_();
  return Guarded(access_, Method::kDelete, name_space, context,
                 [&] { return inner_.Delete(std::move(request), context); });
}

absl::StatusOr<ListReply> GuardedTensorStore::List(const ListRequest& request,
                                                   const CallContext& context) {
  return Guarded(access_, Method::kList, request.namespace_(), context,
                 [&] { return inner_.List(request, context); });
}

absl::StatusOr<StatReply> GuardedTensorStore::Stat(const StatRequest& request,
                                                   const CallContext& context) {
  return Guarded(access_, Method::kStat, request.namespace_(), context,
                 [&] { return inner_.Stat(request, context); });
}

absl::Status GuardedStaging::CheckInit(const InitRequest& request,
                                       const CallContext& context) {
  RETURN_IF_ERROR(
      access_.Check(Method::kInit, request.name_space, context.caller));
  return inner_.CheckInit(request, context);
}

absl::Status GuardedStaging::CheckPush(const PushRequest& request,
                                       const CallContext& context) {
  RETURN_IF_ERROR(
      access_.Check(Method::kPush, request.name_space, context.caller));
  return inner_.CheckPush(request, context);
}

absl::Status GuardedStaging::CheckSetState(const SetStateRequest& request,
                                           const CallContext& context) {
  RETURN_IF_ERROR(
      access_.Check(Method::kSetState, request.name_space, context.caller));
  return inner_.CheckSetState(request, context);
}

absl::Status GuardedStaging::Allocate(absl::string_view name_space,
                                      absl::Span<Tensor* const> tensors,
                                      const CallContext& context) {
  RETURN_IF_ERROR(access_.Check(Method::kPush, name_space, context.caller));
  return inner_.Allocate(name_space, tensors, context);
}

absl::Status GuardedStaging::AllocateForPull(absl::string_view name_space,
                                             absl::Span<Tensor* const> tensors,
                                             const CallContext& context) {
  RETURN_IF_ERROR(access_.Check(Method::kPull, name_space, context.caller));
  return inner_.AllocateForPull(name_space, tensors, context);
}

bool GuardedStaging::ReadsInPlace(absl::string_view name_space) {
  return inner_.ReadsInPlace(name_space);
}

absl::StatusOr<CreateNamespaceReply> GuardedNamespaceAdmin::CreateNamespace(
    const CreateNamespaceRequest& request, const CallContext& context) {
  return Guarded(access_, Method::kCreateNamespace, request.namespace_(),
                 context,
                 [&] { return inner_.CreateNamespace(request, context); });
}

absl::StatusOr<DescribeNamespaceReply> GuardedNamespaceAdmin::DescribeNamespace(
    const DescribeNamespaceRequest& request, const CallContext& context) {
  return Guarded(access_, Method::kDescribeNamespace, request.namespace_(),
                 context,
                 [&] { return inner_.DescribeNamespace(request, context); });
}

absl::StatusOr<std::vector<NamespaceStatus>>
GuardedNamespaceAdmin::ListNamespaces(absl::string_view after,
                                      size_t max_namespaces, Shows shows,
                                      const CallContext& context) {
  return inner_.ListNamespaces(
      after, max_namespaces,
      [&](absl::string_view name) {
        return access_.Allows(Method::kListNamespaces, name, context.caller) &&
               shows(name);
      },
      context);
}

absl::Status GuardedNamespaceAdmin::DeleteNamespace(
    const DeleteNamespaceRequest& request, const CallContext& context) {
  return Guarded(access_, Method::kDeleteNamespace, request.namespace_(),
                 context,
                 [&] { return inner_.DeleteNamespace(request, context); });
}

absl::Status GuardedNamespaceAdmin::Ask(const AnyCall& call,
                                        const CallContext& context) {
  return Guarded(access_, call.method(), NamespaceOf(call), context,
                 [&] { return inner_.Ask(call, context); });
}

void GuardedNamespaceAdmin::Barrier(BarrierRequest request, CallContext context,
                                    ReplyCallback<BarrierReply> done) {
  GuardedWait(access_, Method::kBarrier, std::move(request), std::move(context),
              std::move(done),
              std::bind_front(&NamespaceAdmin::Barrier, &inner_));
}

}  // namespace tensorkv
