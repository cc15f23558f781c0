// Servers that hold the same keys, and how they reach each other.

#ifndef TENSORKV_SERVICE_MIRROR_MIRROR_GROUP_H_
#define TENSORKV_SERVICE_MIRROR_MIRROR_GROUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/mirror/mirror_peer.h"
#include "tensorkv/v1/peer.pb.h"

namespace tensorkv {

// Makes `outcome` that of a round which has failed, with the error `status`.
void SetFailed(v1::RoundOutcome& outcome, const absl::Status& status);
// Returns the error of a round that has failed.
absl::Status StatusOf(const v1::RoundOutcome& outcome);

// MirrorGroup names the servers of a group; a member is a place in `servers`,
// and `own` is this server's.
struct MirrorGroup {
  std::vector<std::string> servers;
  uint32_t own = 0;
  std::vector<std::shared_ptr<MirrorPeer>> peers;

  uint32_t size() const { return static_cast<uint32_t>(servers.size()); }
  // Returns a hash of the servers' names in their order, by which servers
  // notice that they do not have the same group.
  uint64_t id() const;
  // Returns the member that says when sums are made, of all namespaces: where
  // devices exchange ranges, all servers must do so in one order.
  uint32_t leader() const { return 0; }
  // Returns a request that says that this member makes it, and nothing else.
  template <typename Request>
  Request NewRequest() const {
    Request request;
    request.mutable_from()->set_group(id());
    request.mutable_from()->set_place(own);
    return request;
  }
};

using MirrorGroupPtr = std::shared_ptr<const MirrorGroup>;

// Hears why ranges do not go from device to device. Must not block, or call
// what calls it.
using NotOnDevices = std::function<void(const absl::Status& why)>;

// MirrorTimes says how long members wait for each other.
struct MirrorTimes {
  // How long a round waits for a server that has not announced it, before that
  // server gets a Ping; then how long the answer to the Ping is waited for.
  absl::Duration patience = absl::Seconds(5);
  // How long the answer to an announcement waits for more rounds, once some of
  // its rounds have ended: this for each 4 KiB of the announcement, whose other
  // rounds have to be announced again, and no longer than the patience.
  absl::Duration partial_answer = absl::Milliseconds(20);
  // Bounds each step of an attempt to make sums.
  absl::Duration attempt = absl::Seconds(10);

  // Returns the time within which AnnounceRounds is answered, if the leader is
  // there: an attempt may be made twice.
  absl::Duration announce() const { return 2 * patience + 6 * attempt; }
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_MIRROR_GROUP_H_
