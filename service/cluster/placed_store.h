// A store that takes calls about the keys of its own server alone.

#ifndef TENSORKV_SERVICE_CLUSTER_PLACED_STORE_H_
#define TENSORKV_SERVICE_CLUSTER_PLACED_STORE_H_

#include <functional>
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
// their rank. Errors are those
// of KnownPlacement::View::Check and of what is inside. All are thread-safe;
// what they are given outlives them.
class PlacedTensorStore final : public TensorStore {
 public:
  PlacedTensorStore(TensorStore* inner, const KnownPlacement* known,
                    KnowsCall knows = {}, IsMirrored is_mirrored = {})
      : inner_(*inner),
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
  void PushPull(PushRequest request, CallContext context,
                ReplyCallback<PullReply> done) override;
  absl::StatusOr<DeleteReply> Delete(DeleteRequest request,
                                     const CallContext& context) override;
  // Returns the keys that this server owns. Errors: Unavailable
  // (KEY_NOT_RESTORED, or the caller knows a newer placement), so that none is
  // taken for one that is not there.
  absl::StatusOr<ListReply> List(const ListRequest& request,
                                 const CallContext& context) override;
  absl::StatusOr<StatReply> Stat(const StatRequest& request,
                                 const CallContext& context) override;

 private:
  TensorStore& inner_;
  const KnownPlacement& known_;
  const KnowsCall knows_;
  const IsMirrored is_mirrored_;
};

// Before a call gets memory.
class PlacedStaging final : public Staging {
 public:
  PlacedStaging(Staging* inner, const KnownPlacement* known,
                KnowsCall knows = {}, IsMirrored is_mirrored = {})
      : inner_(*inner),
        known_(*known),
        knows_(std::move(knows)),
        is_mirrored_(std::move(is_mirrored)) {}

  absl::Status CheckInit(const InitRequest& request,
                         const CallContext& context) override;
  absl::Status CheckPush(const PushRequest& request,
                         const CallContext& context) override;
  absl::Status Allocate(absl::string_view name_space,
                        absl::Span<Tensor* const> tensors,
                        const CallContext& context) override;
  bool ReadsInPlace(absl::string_view name_space) override;

 private:
  Staging& inner_;
  const KnownPlacement& known_;
  const KnowsCall knows_;
  const IsMirrored is_mirrored_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_PLACED_STORE_H_
