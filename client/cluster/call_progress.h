// Keeps how far a call has come whose shares are made one after another.

#ifndef TENSORKV_CLIENT_CLUSTER_CALL_PROGRESS_H_
#define TENSORKV_CLIENT_CLUSTER_CALL_PROGRESS_H_

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/canceller.h"
#include "client/cluster/known_namespaces.h"
#include "contract/any_call.h"

namespace tensorkv {

template <typename Request>
struct CallProgress {
  KnownNamespace known;
  // True if the caller has named the uid: no other namespace will do.
  bool is_bound = false;
  ReplyTo<Request> reply = {};
  // The places of entries whose shares are to be made (again).
  std::vector<size_t> open;
  // Holds how the shares have ended that were refused at the last attempt
  // because they were at the wrong server, or for a namespace that has gone.
  std::vector<absl::Status> refusals;
  // A server that has refused one, and is in the cluster; empty: none has.
  std::string refused_by;
  // Holds how all other shares have ended.
  std::vector<absl::Status> outcomes;
  // The servers that have taken shares of the snapshot that the call publishes.
  std::set<std::string> published_by;
  // Ends the shares that would wait in vain for the one that ends the call;
  // null where none would.
  std::shared_ptr<Canceller> others;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_CALL_PROGRESS_H_
