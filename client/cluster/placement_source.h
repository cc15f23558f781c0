// Where a client of a cluster learns which server owns what.

#ifndef TENSORKV_CLIENT_CLUSTER_PLACEMENT_SOURCE_H_
#define TENSORKV_CLIENT_CLUSTER_PLACEMENT_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/connection.h"
#include "client/internal/known_server.h"
#include "contract/placement.h"

namespace tensorkv {

using PlacementPtr = std::shared_ptr<const ClusterPlacement>;

// Opens a connection to an address whose calls are made once. What it learns of
// the server is kept in `known`.
using ServerConnector =
    std::function<absl::StatusOr<std::unique_ptr<Connection>>(
        const std::string& address, std::shared_ptr<KnownServer> known)>;

// Keeps the newest placement that any server has told. Thread-safe.
//
// A server that is in no cluster is told as one that owns everything: one of
// an empty name, by the address that it was asked at.
class PlacementSource {
 public:
  // REQUIRES: some addresses, of servers of one cluster.
  PlacementSource(std::vector<std::string> addresses, ServerConnector connect)
      : addresses_(std::move(addresses)), connect_(std::move(connect)) {}

  // What is known, or what a server says where nothing is known yet.
  // Errors: those of Refresh.
  absl::StatusOr<PlacementPtr> Current(const CallOptions& options);

  // Asks one server after the other, those that live first, until one knows a
  // placement of `version` or a newer one. Returns the newest that is known
  // then, which may be older.
  // Errors: Unavailable (no server answers; none knows a placement) · Internal
  // (a placement that makes no sense).
  absl::StatusOr<PlacementPtr> Refresh(uint64_t version,
                                       const CallOptions& options);

  // What the first server says that answers. Errors: those of Refresh.
  absl::StatusOr<DescribeClusterReply> Describe(const CallOptions& options) {
    return AskInTurn(0, options);
  }

 private:
  PlacementPtr Known() const;
  // Keeps the newer of `placement` and what is known.
  void Learn(ClusterPlacement placement);
  std::vector<std::string> Addresses() const;
  // The answer of the first that knows `version`, or of the last that answers.
  // What they say is learnt.
  absl::StatusOr<DescribeClusterReply> AskInTurn(uint64_t version,
                                                 const CallOptions& options);
  absl::StatusOr<DescribeClusterReply> Ask(const std::string& address,
                                           const CallOptions& options);

  const std::vector<std::string> addresses_;
  const ServerConnector connect_;

  mutable Mutex mutex_;
  PlacementPtr known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_PLACEMENT_SOURCE_H_
