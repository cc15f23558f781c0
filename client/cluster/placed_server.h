// A connection to a server of a cluster, whatever its address.

#ifndef TENSORKV_CLIENT_CLUSTER_PLACED_SERVER_H_
#define TENSORKV_CLIENT_CLUSTER_PLACED_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "client/cluster/placement_source.h"
#include "client/cluster/waits.h"
#include "client/connection.h"
#include "client/internal/calls/awaited.h"
#include "client/internal/calls/task.h"

namespace tensorkv {

// Returns whether the error is that of a call to a server that was removed from
// the cluster, and that did not answer where it was: an earlier attempt may
// have been applied there.
bool MayHaveReachedRemovedServer(const absl::Status& status);

// Returns whether the error is that of a call to a server that was removed from
// the cluster, and so comes from no server.
bool IsOfRemovedServer(const absl::Status& status);

// Makes each call once, at the address that the newest placement gives the
// server of that name. Where nobody answers there, it asks for the placement
// again, so that the next attempt goes to where the server has come back. The
// known incarnation of the server holds at every address. Thread-safe.
//
// Errors name the server: `server "b" (10.0.0.4:7363): ...`. A server that the
// cluster has no more, and that does not answer where it was, is
// FailedPrecondition (WRONG_SERVER).
class PlacedServer final : public TaskConnection {
 public:
  // `source`, which knows a placement, outlives it.
  PlacedServer(std::string name, PlacementSource& source,
               ServerConnector connect)
      : name_(std::move(name)), source_(source), connect_(std::move(connect)) {}

 private:
  struct Endpoint {
    std::string address;
    std::shared_ptr<Connection> connection;
    // The version of the placement from which the server was removed; 0 if it
    // is in the newest.
    uint64_t left_by = 0;
  };

  Task<absl::Status> Make(AnyCall call, CallOptions options,
                          CallThreads* threads) override;
  // Returns the address that the known placement gives the server, and a
  // connection to it, which it opens where the address is new; several calls
  // may do so at once, and those that follow use one. Returns the last
  // endpoint of a server that was removed from the cluster, with left_by.
  // Errors: those of `connect`; FailedPrecondition (WRONG_SERVER) for a removed
  // server that was never called.
  absl::StatusOr<Endpoint> ResolveEndpoint();

  const std::string name_;
  PlacementSource& source_;
  const ServerConnector connect_;
  const std::shared_ptr<ServerIncarnation> known_ =
      std::make_shared<ServerIncarnation>();

  Mutex mutex_;
  Endpoint endpoint_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_PLACED_SERVER_H_
