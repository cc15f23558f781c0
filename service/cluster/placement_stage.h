// Takes calls about the keys of its own server alone.

#ifndef TENSORKV_SERVICE_CLUSTER_PLACEMENT_STAGE_H_
#define TENSORKV_SERVICE_CLUSTER_PLACEMENT_STAGE_H_

#include <functional>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/cluster/known_placement.h"
#include "service/store/call_stage.h"

namespace tensorkv {

// A KnowsCall tells whether the caller has made that call in that namespace of
// this server, or is making it. Thread-safe.
using KnowsCall = std::function<bool(absl::string_view name_space,
                                     const Caller& caller, const CallId& id)>;

// An IsMirrored tells whether every server holds the keys of that namespace,
// and nothing if this one has no such namespace. Thread-safe.
using IsMirrored =
    std::function<std::optional<bool>(absl::string_view name_space)>;

// For a server that may be in a cluster: a call that names a key of another
// server is refused before anything is done for it. But one that was made here,
// when the key was here, is admitted: the store remembers its answer. And a
// caller that knows another incarnation of this server is told so: it may have
// been made by that one. Keys of mirrored namespaces are every server's, and
// those who call as workers call the one of their rank. Nothing is watched
// where no placement is known. A call that brings tensors to a namespace that
// is not here is admitted, and the store refuses it: its caller may think that
// it is mirrored still. What the home of a namespace says of its snapshots is
// refused elsewhere.
class PlacementStage final : public CallStage {
 public:
  // `known` outlives the stage.
  explicit PlacementStage(const KnownPlacement* known, KnowsCall knows = {},
                          IsMirrored is_mirrored = {})
      : known_(*known),
        knows_(std::move(knows)),
        is_mirrored_(std::move(is_mirrored)) {}

  // Errors: those of KnownPlacement::View::Check · FailedPrecondition
  // (OUTCOME_UNKNOWN): the push of a PushPull was made here before its keys
  // moved, and the values to pull are at another server · Aborted: it names a
  // snapshot of servers that the placement does not have.
  absl::Status Admit(const StagedCall& call) const override;

  // Returns the keys that this server owns, of those that `list` returns to the
  // request; all of a share of a snapshot. Errors: those of `list` ·
  // Unavailable (KEY_NOT_RESTORED, or the caller knows a newer placement), so
  // that none is taken for one that is not there.
  absl::StatusOr<ListReply> List(
      const ListRequest& request,
      absl::FunctionRef<absl::StatusOr<ListReply>()> list) const;

 private:
  // Checks that all keys that the call names are this server's; of a mirrored
  // namespace, that the caller is.
  absl::Status CheckIsHere(const StagedCall& call) const;
  // Returns what IsMirrored does; false if this has none.
  std::optional<bool> IsOfAll(absl::string_view name_space) const {
    return is_mirrored_ ? is_mirrored_(name_space) : false;
  }

  const KnownPlacement& known_;
  const KnowsCall knows_;
  const IsMirrored is_mirrored_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_PLACEMENT_STAGE_H_
