// Servers that hold the same keys, and how they reach each other.

#ifndef TENSORKV_SERVICE_MIRROR_MIRROR_GROUP_H_
#define TENSORKV_SERVICE_MIRROR_MIRROR_GROUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "mirror.pb.h"

namespace tensorkv {

using MirrorRequest = mirror::v1::MirrorRequest;
using MirrorResponse = mirror::v1::MirrorResponse;
using MirrorCallback =
    absl::AnyInvocable<void(absl::StatusOr<MirrorResponse>) &&>;

// Says that the round has failed, with that error.
void SetFailed(mirror::v1::Outcome& outcome, const absl::Status& status);
// Returns the error of a round that has failed.
absl::Status StatusOf(const mirror::v1::Outcome& outcome);

// One of the servers, this one too, as the others call it. Thread-safe.
class MirrorPeer {
 public:
  virtual ~MirrorPeer() = default;

  // Calls `done`, on any thread, maybe before this returns, within the timeout
  // and some time to notice.
  // Errors: those of the call · Unavailable · DeadlineExceeded; messages name
  // the server.
  virtual void Call(MirrorRequest request, absl::Duration timeout,
                    MirrorCallback done) = 0;
};

// A plain value. Members go by their places.
struct MirrorGroup {
  std::vector<std::string> servers;
  uint32_t own = 0;
  std::vector<std::shared_ptr<MirrorPeer>> peers;

  uint32_t size() const { return static_cast<uint32_t>(servers.size()); }
  // Groups of other servers, or in another order, have another one.
  uint64_t id() const;
  // Returns the member that says when sums are made, of all namespaces: where
  // devices exchange ranges, all servers must do so in one order.
  uint32_t leader() const { return 0; }
  MirrorRequest NewRequest() const;
};

using MirrorGroupPtr = std::shared_ptr<const MirrorGroup>;

// Is told why ranges do not go from device to device. Must not wait or call
// back.
using NotOnDevices = std::function<void(const absl::Status& why)>;

// MirrorTimes says how long members wait for each other.
struct MirrorTimes {
  // Until a server that has not announced a round is asked whether it is there;
  // then for its answer.
  absl::Duration patience = absl::Seconds(5);
  // Until an announcement some of whose rounds have ended is answered, while
  // others still wait for servers that have not announced them.
  // This for each 4 KiB of it, and no longer than the patience: those rounds
  // are all announced again.
  absl::Duration partial_answer = absl::Milliseconds(20);
  // For each step of an attempt to make sums.
  absl::Duration attempt = absl::Seconds(10);

  // Within which Announce is answered, if the leader is there: an attempt may
  // be made twice.
  absl::Duration announce() const { return 2 * patience + 6 * attempt; }
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_MIRROR_GROUP_H_
