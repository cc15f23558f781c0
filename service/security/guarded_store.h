// A store that calls pass only with the right to make them.

#ifndef TENSORKV_SERVICE_SECURITY_GUARDED_STORE_H_
#define TENSORKV_SERVICE_SECURITY_GUARDED_STORE_H_

#include <vector>

#include "service/security/access_control.h"
#include "service/store/staging.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// The interfaces of a store for callers from outside. Each function first
// checks by AccessControl::Check that the caller may make the call in its
// namespace, and then makes it at `inner`; Audit hears how a call that needs
// the right of an admin has ended. Errors are those of Check and of `inner`.
// All are thread-safe; what they are given outlives them.
class GuardedTensorStore final : public TensorStore {
 public:
  GuardedTensorStore(TensorStore* inner, const AccessControl* access)
      : inner_(*inner), access_(*access) {}

  void Init(InitRequest request, CallContext context,
            ReplyCallback<InitReply> done) override;
  void Push(PushRequest request, CallContext context,
            ReplyCallback<PushReply> done) override;
  void Pull(PullRequest request, CallContext context,
            ReplyCallback<PullReply> done) override;
  void PushPull(PushPullRequest request, CallContext context,
                ReplyCallback<PullReply> done) override;
  void SetState(SetStateRequest request, CallContext context,
                ReplyCallback<SetStateReply> done) override;
  void GetState(GetStateRequest request, CallContext context,
                ReplyCallback<GetStateReply> done) override;
  absl::StatusOr<DeleteReply> Delete(DeleteRequest request,
                                     const CallContext& context) override;
  absl::StatusOr<ListReply> List(const ListRequest& request,
                                 const CallContext& context) override;
  absl::StatusOr<StatReply> Stat(const StatRequest& request,
                                 const CallContext& context) override;

 private:
  TensorStore& inner_;
  const AccessControl& access_;
};

// Checks the right before a call gets memory.
class GuardedStaging final : public Staging {
 public:
  GuardedStaging(Staging* inner, const AccessControl* access)
      : inner_(*inner), access_(*access) {}

  absl::Status CheckInit(const InitRequest& request,
                         const CallContext& context) override;
  absl::Status CheckPush(const PushRequest& request,
                         const CallContext& context) override;
  absl::Status CheckSetState(const SetStateRequest& request,
                             const CallContext& context) override;
  absl::Status Allocate(absl::string_view name_space,
                        absl::Span<Tensor* const> tensors,
                        const CallContext& context) override;
  absl::Status AllocateForPull(absl::string_view name_space,
                               absl::Span<Tensor* const> tensors,
                               const CallContext& context) override;
  bool ReadsInPlace(absl::string_view name_space) override;

 private:
  Staging& inner_;
  const AccessControl& access_;
};

// ListNamespaces checks no right, but returns only namespaces that the caller
// may read.
class GuardedNamespaceAdmin final : public NamespaceAdmin {
 public:
  GuardedNamespaceAdmin(NamespaceAdmin* inner, const AccessControl* access)
      : inner_(*inner), access_(*access) {}

  absl::StatusOr<CreateNamespaceReply> CreateNamespace(
      const CreateNamespaceRequest& request,
      const CallContext& context) override;
  absl::StatusOr<DescribeNamespaceReply> DescribeNamespace(
      const DescribeNamespaceRequest& request,
      const CallContext& context) override;
  absl::StatusOr<std::vector<NamespaceStatus>> ListNamespaces(
      absl::string_view after, size_t max_namespaces, Shows shows,
      const CallContext& context) override;
  absl::Status DeleteNamespace(const DeleteNamespaceRequest& request,
                               const CallContext& context) override;
  absl::Status Ask(const AnyCall& call, const CallContext& context) override;
  void Barrier(BarrierRequest request, CallContext context,
               ReplyCallback<BarrierReply> done) override;

 private:
  NamespaceAdmin& inner_;
  const AccessControl& access_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SECURITY_GUARDED_STORE_H_
