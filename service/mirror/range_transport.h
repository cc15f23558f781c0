// Carries ranges of tensors from server to server.

#ifndef TENSORKV_SERVICE_MIRROR_RANGE_TRANSPORT_H_
#define TENSORKV_SERVICE_MIRROR_RANGE_TRANSPORT_H_

#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace tensorkv {

// Hold, for each member of the group, the pieces of memory to send to it or to
// receive from it, in an order that both sides know. No piece is empty; a
// member sends nothing to itself. The memory must stay until EndAttempt.
using RangesToSend = std::vector<std::vector<absl::Span<const char>>>;
using RangesToReceive = std::vector<std::vector<absl::Span<char>>>;

// Moves the ranges of attempts to make sums. An attempt has two phases: 0 moves
// contributions, 1 sums. No function blocks for a peer or a device.
// Thread-safe.
class RangeTransport {
 public:
  static constexpr int kNumPhases = 2;
  using Callback = absl::AnyInvocable<void(absl::Status) &&>;

  virtual ~RangeTransport() = default;

  // Names the memory for what others send in a phase. Comes before any member
  // sends in that phase.
  virtual void Expect(uint64_t attempt, int phase,
                      RangesToReceive receives) = 0;

  // Begins to send, and returns; calls `done` once, on any thread, maybe before
  // this returns, when all has been sent and all that is expected has come.
  // Errors: DeadlineExceeded and Unavailable, naming a server · Cancelled or
  // FailedPrecondition: the attempt has ended, or was never expected.
  virtual void Move(uint64_t attempt, int phase, RangesToSend sends,
                    absl::Duration timeout, Callback done) = 0;

  // Ends an attempt, whether it is complete or not; does nothing if there is
  // none of that id. A Move under way ends with Cancelled. When this returns
  // nothing reads or writes the attempt's memory any more, unless the transport
  // was given what keeps that memory (DeviceRanges::Begin).
  virtual void EndAttempt(uint64_t attempt) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_RANGE_TRANSPORT_H_
