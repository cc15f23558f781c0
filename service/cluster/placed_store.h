// A store that takes calls about the keys of its own server alone.

#ifndef TENSORKV_SERVICE_CLUSTER_PLACED_STORE_H_
#define TENSORKV_SERVICE_CLUSTER_PLACED_STORE_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "service/cluster/known_placement.h"
#include "service/store/staging.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// A KnowsCall tells whether the caller has made that call in that namespace of
// this server, or is making it. Thread-safe.
using KnowsCall = std::function<bool(absl::string_view name_space,
                                     const Caller& caller, const CallId& id)>;

// An IsMirrored tells whether every server holds the keys of that namespace.
// Thread-safe.
using IsMirrored = std::function<bool(absl::string_view name_space)>;

// The interfaces that name keys, for a server that may be in a cluster: a call
// that names a key of another server is refused before anything is done for it.
// But one that was made here, when the key was here, is passed on: what is
// inside remembers its answer. And a caller that knows another incarnation of
// this server is told so: it may have been made by that one. Keys of mirrored
// namespaces are every server's, and those who call as workers call the one of
// their rank. Errors are those of KnownPlacement::View::Check and of what is
// inside. Thread-safe; what it is given outlives it.
class PlacedStore final : public TensorStore, public Staging {
 public:
  PlacedStore(TensorStore* inner, Staging* staging, const KnownPlacement* known,
              KnowsCall knows = {}, IsMirrored is_mirrored = {})
      : inner_(*inner),
        staging_(*staging),
        known_(*known),
        knows_(std::move(knows)),
        is_mirrored_(std::move(is_mirrored)) {}

  void Init(InitRequest request, CallContext context,
            ReplyCallback<InitReply> done) override;
  void Push(PushRequest request, CallContext context,
            ReplyCallback<PushReply> done) override;
  void Pull(PullRequest request, CallContext context,
            ReplyCallback<PullReply> done) override;
  // Errors: also FailedPrecondition (OUTCOME_UNKNOWN): the push was made here
  // before its keys moved, and the values to pull are at another server.
  void PushPull(PushPullRequest request, CallContext context,
                ReplyCallback<PullReply> done) override;
  void SetState(SetStateRequest request, CallContext context,
                ReplyCallback<SetStateReply> done) override;
  void GetState(GetStateRequest request, CallContext context,
                ReplyCallback<GetStateReply> done) override;
  absl::StatusOr<DeleteReply> Delete(DeleteRequest request,
                                     const CallContext& context) override;
  // Returns the keys that this server owns. Errors: Unavailable
  // (KEY_NOT_RESTORED, or the caller knows a newer placement), so that none is
  // taken for one that is not there.
  absl::StatusOr<ListReply> List(const ListRequest& request,
                                 const CallContext& context) override;
  absl::StatusOr<StatReply> Stat(const StatRequest& request,
                                 const CallContext& context) override;

  // These are before a call gets memory.
  absl::Status CheckInit(const InitRequest& request,
                         const CallContext& context) override;
  absl::Status CheckPush(const PushRequest& request,
                         const CallContext& context) override;
  absl::Status CheckSetState(const SetStateRequest& request,
                             const CallContext& context) override;
  absl::Status Allocate(absl::string_view name_space,
                        absl::Span<Tensor* const> tensors,
                        const CallContext& context) override {
    return staging_.Allocate(name_space, tensors, context);
  }
  bool ReadsInPlace(absl::string_view name_space) override {
    return staging_.ReadsInPlace(name_space);
  }

 private:
  // Checks that all keys that the call names are this server's; of a mirrored
  // namespace, that the caller is.
  template <typename Request>
  absl::Status CheckIsHere(const Request& request) const;
  // Returns OK if `status` of CheckIsHere is, or the call was made when it was.
  template <typename Request>
  absl::Status OrKnown(absl::Status status, const Request& request,
                       const CallContext& context) const;
  template <typename Request>
  absl::Status Check(const Request& request, const CallContext& context) const {
    return OrKnown(CheckIsHere(request), request, context);
  }
  bool IsOfAll(const std::string& name_space) const {
    return is_mirrored_ && is_mirrored_(name_space);
  }

  TensorStore& inner_;
  Staging& staging_;
  const KnownPlacement& known_;
  const KnowsCall knows_;
  const IsMirrored is_mirrored_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_PLACED_STORE_H_
