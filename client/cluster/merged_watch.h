// One watch of several servers.

#ifndef TENSORKV_CLIENT_CLUSTER_MERGED_WATCH_H_
#define TENSORKV_CLIENT_CLUSTER_MERGED_WATCH_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "contract/requests.h"

namespace tensorkv {

// Asks all servers, again and again, for a short time each, so that one of them
// that has something to tell is not held up for long by those that have not.
// Used by one thread.
class MergedWatch {
 public:
  // Begins a call of a watch of these servers. Errors: InvalidArgument.
  static absl::StatusOr<MergedWatch> Create(const WatchRequest& request,
                                            std::vector<std::string> servers);

  // Has the next requests be answered within `left`.
  void BeginRound(absl::Duration left);
  size_t num_servers() const { return servers_.size(); }
  const std::string& server(size_t i) const { return servers_[i]; }
  const WatchRequest& request(size_t i) const { return requests_[i]; }
  // Takes the reply of each server. Returns whether there is something to tell,
  // or the watch begins.
  bool Take(std::vector<WatchReply> replies);
  // Returns the reply to the call.
  WatchReply Reply();

 private:
  std::vector<std::string> servers_;
  std::vector<WatchRequest> requests_;
  absl::Duration interval_;
  bool is_first_ = false;
  WatchReply reply_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_MERGED_WATCH_H_
