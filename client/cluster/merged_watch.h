// Makes one watch of those of several servers.

#ifndef TENSORKV_CLIENT_CLUSTER_MERGED_WATCH_H_
#define TENSORKV_CLIENT_CLUSTER_MERGED_WATCH_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "contract/requests.h"

namespace tensorkv {

// MergedWatch says whom a call of a watch asks, and makes one reply of theirs.
// Used by one thread.
//
// Of a key that has moved, two servers may tell at once. Revisions at the
// server to which it goes are above those of before, so the highest counts.
class MergedWatch {
 public:
  // Begins a call of a watch of these servers, which own keys, the home first.
  // Errors: InvalidArgument · Aborted (REVISION_COMPACTED): the token is of
  // others, or the home is not that any more of what is mirrored.
  static absl::StatusOr<MergedWatch> Create(const WatchRequest& request,
                                            std::vector<std::string> servers);

  // Returns whether the watch begins: it is answered at once.
  bool begins() const { return begins_; }
  // Returns whether the home alone is to be asked.
  bool is_mirrored() const { return is_mirrored_; }
  // Returns the indices of the servers from the first one on.
  std::vector<size_t> From(size_t first) const;
  const std::string& server(size_t i) const { return servers_[i]; }
  const WatchRequest& request(size_t i) const { return requests_[i]; }
  // Has the next requests be answered within `max_wait`; if that is infinite,
  // as late as servers let calls wait.
  void SetMaxWait(absl::Duration max_wait);

  // Returns whether nobody else need be waited for.
  static bool IsAnswer(size_t server, const absl::StatusOr<WatchReply>& reply);
  // Takes the reply of each server that was asked. Returns those whose call was
  // ended for the sake of others. Errors: that of the servers which
  // MostActionableError chooses; Aborted (REVISION_COMPACTED), where one has
  // left, or has the namespace since. A server that has no such namespace yet
  // is asked again by the next call, unless it is the home; and one that does
  // not answer, if others have something to tell.
  absl::StatusOr<std::vector<size_t>> Take(
      const std::vector<size_t>& asked,
      std::vector<absl::StatusOr<WatchReply>> replies);
  // Returns whether there is something to tell.
  bool HasAnswer() const {
    return reply_.has_more() || !reply_.changes().empty();
  }
  // Returns the reply to the call.
  WatchReply Reply();

 private:
  void Add(size_t server, WatchReply reply);
  void Add(v1::Change change);

  std::vector<std::string> servers_;
  std::vector<WatchRequest> requests_;
  bool begins_ = false;
  bool is_mirrored_ = false;
  WatchReply reply_;
  // Where keys and series are among its changes.
  absl::flat_hash_map<std::pair<std::string, std::string>, int> by_name_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_MERGED_WATCH_H_
