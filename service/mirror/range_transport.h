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

// For each member of the group, pieces in an order that both sides know. None
// is empty; a member sends nothing to itself.
using RangesToSend = std::vector<std::vector<absl::Span<const char>>>;
using RangesToReceive = std::vector<std::vector<absl::Span<char>>>;

// An attempt is made in two phases: contributions, then sums. Thread-safe.
class RangeTransport {
 public:
  static constexpr int kNumPhases = 2;
  using Callback = absl::AnyInvocable<void(absl::Status) &&>;

  virtual ~RangeTransport() = default;

  // Names the memory for what others send in a phase, before anybody sends.
  virtual void Expect(uint64_t attempt, int phase,
                      RangesToReceive receives) = 0;

  // Sends; calls `done`, on any thread, when all has been sent and all that is
  // expected has come. Errors: DeadlineExceeded and Unavailable, naming a
  // server · Cancelled, after Forget.
  virtual void Move(uint64_t attempt, int phase, RangesToSend sends,
                    absl::Duration timeout, Callback done) = 0;

  // Ends an attempt. When this returns nothing reads or writes its memory any
  // more, unless the transport has been given what keeps that.
  virtual void Forget(uint64_t attempt) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_RANGE_TRANSPORT_H_
