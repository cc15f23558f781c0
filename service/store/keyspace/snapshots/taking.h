// Takes named snapshots, of changes and between them.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_TAKING_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_TAKING_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ref_counted.h"
#include "contract/data_requests.h"
#include "contract/snapshot_references.h"
#include "service/store/keyspace/snapshots/named_snapshot.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/updates/pending_update.h"

namespace tensorkv {

// All are called with the namespace's mutex held.

// Returns one that no other snapshot has.
uint64_t NewSnapshotUid();

// Checks that a snapshot can be taken by the change that comes next, for which
// older ones may have to go. Errors: those of CreateSnapshot, but for
// InvalidArgument · but for shares those of CheckGivesNumbers · but for shares
// and what is to be made of them, which has its uid by then, FailedPrecondition
// (WRONG_SERVER): other servers own keys.
absl::Status CheckCanTake(Transaction& transaction, SnapshotTerms& terms);

// Takes a snapshot of all that has been admitted, this transaction's changes
// among it. It can be read when the effects of all of that have ended; with
// `taken_by`, unless that call has failed then. REQUIRES: CheckCanTake is OK,
// and the transaction admits nothing afterwards.
PublishedSnapshot TakeSnapshot(Transaction& transaction, SnapshotTerms terms,
                               RefPtr<QueuedCall> taken_by);

// The snapshot that a call takes with its change, if it is to take one.
class Publication {
 public:
  // Errors: InvalidArgument.
  static absl::StatusOr<Publication> Create(
      const std::optional<PublishAs>& publish_as);
  // Returns that of the call, whose keys it has if it is a part without
  // prefixes. Errors: InvalidArgument.
  template <typename Request>
  static absl::StatusOr<Publication> Of(const Request& request) {
    absl::StatusOr<Publication> publication = Create(request.publish_as);
    if (!publication.ok() || !publication->HasItsKeys()) return publication;
    for (const auto& entry : request.entries) publication->AddKey(entry.key);
    publication->SortKeys();
    return publication;
  }

  // Does what CheckCanTake does, before the change.
  absl::Status Check(Transaction& transaction) {
    return terms_ ? CheckCanTake(transaction, *terms_) : absl::OkStatus();
  }
  // Does what TakeSnapshot does, after it.
  std::optional<PublishedSnapshot> Take(Transaction& transaction,
                                        RefPtr<QueuedCall> taken_by);

 private:
  // Returns whether the snapshot has the keys of its call, and no others.
  bool HasItsKeys() const { return terms_ && terms_->prefixes.empty(); }
  void AddKey(const std::string& name);
  void SortKeys();

  std::optional<SnapshotTerms> terms_;
};

// Has the snapshots be read that can be, now that effects have ended.
void OpenReadySnapshots(Transaction& transaction);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_TAKING_H_
