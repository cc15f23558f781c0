// The shares that a store has of the snapshots of its cluster.

#ifndef TENSORKV_SERVICE_STORE_SNAPSHOT_SHARES_H_
#define TENSORKV_SERVICE_STORE_SNAPSHOT_SHARES_H_

#include <vector>

#include "tensorkv/v1/peer.pb.h"

namespace tensorkv {

// Asks about snapshots, and answers, as peer.proto says. Thread-safe.
class SnapshotShares {
 public:
  virtual ~SnapshotShares() = default;

  // Returns the questions to the homes of all namespaces that have snapshots,
  // some for each of them.
  virtual std::vector<v1::CheckSharesRequest> SharesToCheck() const = 0;
  // Answers a question, as the home of its namespace. Lets go of what is lost.
  virtual v1::CheckSharesResponse CheckShares(
      const v1::CheckSharesRequest& request) = 0;
  // Lets go of what the answer to the request says.
  virtual void DropShares(const v1::CheckSharesRequest& request,
                          const v1::CheckSharesResponse& response) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_SNAPSHOT_SHARES_H_
