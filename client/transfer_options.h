// Says how tensors travel between a client and its server.

#ifndef TENSORKV_CLIENT_TRANSFER_OPTIONS_H_
#define TENSORKV_CLIENT_TRANSFER_OPTIONS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tensorkv {

// A call with little payload is one message in each direction. More goes as a
// stream of parts, so that sending, receiving and copying overlap and a call
// may be of any size; much more as several such streams, its stripes, each on a
// connection of its own. This side decides how tensors of requests go, and the
// server how values come: it knows how many they are. The defaults choose by
// size; the extremes force one way or the other.
struct TransferOptions {
  // Less payload goes in one message. Lists of tensors that are pushed, and so
  // small that their parts would cost more than they gain, are one message too,
  // as long as that is within the message limit. Values of so many bytes or
  // more come by a ticket: the reply says what they are, and streams bring
  // them.
  uint64_t stream_threshold_bytes = uint64_t{2} << 20;

  // The longest part, before its few bytes of metadata; the message limit
  // bounds it too.
  uint64_t part_bytes = uint64_t{1} << 20;

  // The least payload for which a call takes one more connection.
  uint64_t min_stripe_bytes = uint64_t{4} << 20;

  // How many connections there are for streams, besides the one for everything
  // else. They open when they are first used. 0 stands for the number of cores,
  // at most 4.
  int bulk_connections = 0;

  // How much memory of pulled tensors that nobody uses any more is kept for
  // those that are pulled next: fresh memory costs several times as much as
  // copying into it. A worker's copies of what it pushes have as much of their
  // own.
  uint64_t max_idle_bytes = uint64_t{1} << 30;

  // Such memory, and that of what was sent, goes back to the system when it has
  // not been used for so long, or for at most twice as long.
  absl::Duration max_idle_time = absl::Seconds(10);
};

// Checks that the options make sense. Errors: InvalidArgument.
absl::Status CheckTransferOptions(const TransferOptions& options);

// Returns `options.bulk_connections`, or what 0 stands for on this machine.
int NumBulkConnections(const TransferOptions& options);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_TRANSFER_OPTIONS_H_
