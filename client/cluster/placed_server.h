// A connection to a server of a cluster, wherever the server is.

#ifndef TENSORKV_CLIENT_CLUSTER_PLACED_SERVER_H_
#define TENSORKV_CLIENT_CLUSTER_PLACED_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "client/cluster/placement_source.h"
#include "client/connection.h"

namespace tensorkv {

// Returns whether a call with that error went to a server that the cluster has
// no more, and that did not answer: an earlier attempt may have been made
// there.
bool MayBeMadeByOneThatLeft(const absl::Status& status);

// Returns whether the call with that error was refused by no server: the
// cluster has the one that it was for no more.
bool IsOfOneThatLeft(const absl::Status& status);

// Makes each call once, at the address that the newest placement gives the
// server of that name. Where nobody is there it asks for the placement again,
// so that the next attempt goes to where the server has come back. What it
// knows of the server's incarnation holds at every address. Thread-safe.
//
// Errors name the server: `server "b" (10.0.0.4:7363): ...`. A server that the
// cluster has no more, and that does not answer where it was, is
// FailedPrecondition (WRONG_SERVER).
class PlacedServer final : public Connection {
 public:
  // `source` outlives it.
  PlacedServer(std::string name, PlacementSource& source,
               ServerConnector connect)
      : name_(std::move(name)), source_(source), connect_(std::move(connect)) {}

  absl::Status Attempt(const AnyCall& call,
                       const CallOptions& options) override;

 private:
  struct Place {
    std::string address;
    std::shared_ptr<Connection> connection;
    // The version of the placement that has the server no more; 0 if it has.
    uint64_t left_by = 0;
  };

  absl::StatusOr<Place> Find(const CallOptions& options);

  const std::string name_;
  PlacementSource& source_;
  const ServerConnector connect_;
  const std::shared_ptr<ServerIncarnation> known_ =
      std::make_shared<ServerIncarnation>();

  Mutex mutex_;
  Place place_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_PLACED_SERVER_H_
