// CreateSnapshot: takes a snapshot between the changes of others; of a cluster,
// in steps.

#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/call_at_snapshot.h"
#include "service/store/keyspace/snapshots/cluster_shares.h"
#include "service/store/keyspace/snapshots/snapshot_status.h"
#include "service/store/keyspace/snapshots/snapshot_terms.h"
#include "service/store/keyspace/snapshots/taking.h"

namespace tensorkv {
namespace {

// A call that waits until its snapshot can be read. If it fails before, nobody
// will see the snapshot, unless it is a share, which is that of others, too.
class CreateCall final : public CallAtSnapshot<CreateSnapshotReply> {
 public:
  using CallAtSnapshot::CallAtSnapshot;

  void Fail(const absl::Status& status) override {
    NamedSnapshot* const taken = state_.named->FindUid(reference_.uid());
    if (taken != nullptr && !taken->is_sealed) taken->is_abandoned = true;
    CallAtSnapshot::Fail(status);
  }
};

// Returns a reference to what is taken.
absl::StatusOr<SnapshotReference> TakeNow(NamespaceState& state,
                                          SnapshotTerms terms) {
  Transaction transaction(state);
  RETURN_IF_ERROR(CheckCanTake(transaction, terms));
  SnapshotReference reference = SnapshotOf(terms.series, 0);
  terms.uid = NewSnapshotUid();
  reference.set_uid(terms.uid);
  reference.set_number(
      TakeSnapshot(transaction, std::move(terms), nullptr).number);
  return reference;
}

}  // namespace

void Namespace::CreateSnapshot(CreateSnapshotRequest request,
                               CallContext context,
                               ReplyCallback<CreateSnapshotReply> done) {
  if (request.step() == CreateSnapshotRequest::NAME) {
    return std::move(done)(NameShare(*state_, request));
  }
  absl::StatusOr<SnapshotTerms> terms = TermsOf(request);
  if (!terms.ok()) return std::move(done)(terms.status());
  if (request.step() == CreateSnapshotRequest::RESERVE) {
    return std::move(done)(
        ReserveNumber(*state_, *std::move(terms), context.timeout));
  }
  const absl::StatusOr<SnapshotReference> taken =
      terms->is_share
          ? PrepareShare(*state_, *std::move(terms), request.has_share())
          : TakeNow(*state_, *std::move(terms));
  if (!taken.ok()) return std::move(done)(taken.status());
  const auto read =
      [incarnation = state_->tokens.incarnation()](NamedSnapshot& snapshot) {
        CreateSnapshotReply reply;
        SetReply(snapshot, &reply);
        if (snapshot.is_share) reply.set_incarnation(incarnation);
        return reply;
      };
  StartCall(*state_,
            std::make_shared<CreateCall>(*state_, *taken, std::move(context),
                                         read, std::move(done)));
}

}  // namespace tensorkv
