// The mutating calls of a namespace, each made once however often it comes.

#ifndef TENSORKV_SERVICE_STORE_ONCE_CALLS_H_
#define TENSORKV_SERVICE_STORE_ONCE_CALLS_H_

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/requests.h"
#include "service/store/call_window.h"
#include "service/store/keyspace/namespace.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Makes the calls of a namespace that carry a call_id pass through its
// CallWindow; others go straight on. Verbs as in TensorStore. A namespace with
// such a call under way stays alive.
//
// Every answer is kept, but for those which say that nothing has happened and
// the call may be made again: Unavailable, ResourceExhausted, Cancelled and
// DeadlineExceeded.
//
// Of a PushPull the answer to the push is kept, never the values, nor what the
// pull met: an attempt that finds it only pulls.

void InitOnce(const std::shared_ptr<Namespace>& name_space, InitRequest request,
              const CallContext& context, ReplyCallback<InitReply> done);
void PushOnce(const std::shared_ptr<Namespace>& name_space, PushRequest request,
              CallContext context, ReplyCallback<PushReply> done);
void PushPullOnce(const std::shared_ptr<Namespace>& name_space,
                  PushRequest request, CallContext context,
                  ReplyCallback<PullReply> done);

void BarrierOnce(const std::shared_ptr<Namespace>& name_space,
                 BarrierRequest request, CallContext context,
                 ReplyCallback<BarrierReply> done);

// These take no longer than to get the namespace's mutex and to hold it, those
// of rules than to allocate states; so does the wait for another attempt, which
// blocks the thread.
absl::StatusOr<DeleteReply> DeleteOnce(Namespace& name_space,
                                       const DeleteRequest& request,
                                       const CallContext& context);
absl::StatusOr<JoinReply> JoinOnce(Namespace& name_space,
                                   const JoinRequest& request,
                                   const CallContext& context);
absl::Status LeaveOnce(Namespace& name_space, const LeaveRequest& request,
                       const CallContext& context);
absl::Status SetRuleOnce(Namespace& name_space, const SetRuleRequest& request,
                         const CallContext& context);
absl::Status UnsetRuleOnce(Namespace& name_space,
                           const UnsetRuleRequest& request,
                           const CallContext& context);
absl::StatusOr<RuleSpec> SetHyperparametersOnce(
    Namespace& name_space, const SetHyperparametersRequest& request,
    const CallContext& context);

// The same for a call of no namespace: `create` makes it.
absl::StatusOr<CreateNamespaceReply> CreateNamespaceOnce(
    CallWindow& calls, const CreateNamespaceRequest& request,
    const CallContext& context,
    absl::FunctionRef<absl::StatusOr<CreateNamespaceReply>()> create);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_ONCE_CALLS_H_
