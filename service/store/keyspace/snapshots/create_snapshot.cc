// CreateSnapshot: takes a snapshot between the changes of others.

#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/call_at_snapshot.h"
#include "service/store/keyspace/snapshots/snapshot_status.h"
#include "service/store/keyspace/snapshots/snapshot_terms.h"
#include "service/store/keyspace/snapshots/taking.h"

namespace tensorkv {
namespace {

// A call that waits until its snapshot can be read. If it fails before, nobody
// will see the snapshot.
class CreateCall final : public CallAtSnapshot<CreateSnapshotReply> {
 public:
  using CallAtSnapshot::CallAtSnapshot;

  void Fail(const absl::Status& status) override {
    Series* const series = state_.named->Find(reference_.series());
    NamedSnapshot* const taken = series->Find(reference_.number());
    if (taken != nullptr) taken->is_abandoned = true;
    CallAtSnapshot::Fail(status);
  }
};

absl::StatusOr<PublishedSnapshot> TakeNow(NamespaceState& state,
                                          SnapshotTerms terms) {
  Transaction transaction(state);
  RETURN_IF_ERROR(CheckCanTake(transaction, terms));
  return TakeSnapshot(transaction, std::move(terms), nullptr);
}

}  // namespace

void Namespace::CreateSnapshot(CreateSnapshotRequest request,
                               CallContext context,
                               ReplyCallback<CreateSnapshotReply> done) {
  absl::StatusOr<SnapshotTerms> terms = TermsOf(request);
  if (!terms.ok()) return std::move(done)(terms.status());
  const absl::StatusOr<PublishedSnapshot> taken =
      TakeNow(*state_, *std::move(terms));
  if (!taken.ok()) return std::move(done)(taken.status());
  const auto read = [](NamedSnapshot& snapshot) {
    CreateSnapshotReply reply;
    SetReply(snapshot, &reply);
    return reply;
  };
  StartCall(*state_, std::make_shared<CreateCall>(
                         *state_, SnapshotOf(request.series(), taken->number),
                         std::move(context), read, std::move(done)));
}

}  // namespace tensorkv
