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
  // Answers a question, as the home of its namespace.
  virtual v1::CheckSharesResponse CheckShares(
      const v1::CheckSharesRequest& request) const = 0;
  // Lets go of what the answer to the request says.
  virtual void DropShares(const v1::CheckSharesRequest& request,
                          const v1::CheckSharesResponse& response) = 0;

  // Returns the questions to the servers of all snapshots that this one has
  // named as a home, one for each server and namespace.
  virtual std::vector<v1::FindSharesRequest> SharesToFind() const = 0;
  // Answers such a question.
  virtual v1::FindSharesResponse FindShares(
      const v1::FindSharesRequest& request) const = 0;
  // Lets go of the snapshots of which the answer to the request misses shares:
  // they are lost.
  virtual void CloseLost(const v1::FindSharesRequest& request,
                         const v1::FindSharesResponse& response) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_SNAPSHOT_SHARES_H_
