// Says how a worker joins and reads.

#ifndef TENSORKV_CLIENT_WORKER_OPTIONS_H_
#define TENSORKV_CLIENT_WORKER_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/canceller.h"
#include "client/destination.h"
#include "tensor/dtype.h"

namespace tensorkv {

struct WorkerOptions {
  // Unique among the namespace's workers, and the same when the worker comes
  // back.
  std::string name;

  // The rank to have; without it the server chooses.
  std::optional<uint32_t> rank;

  // Says how long the server waits for a sign of life before it counts the
  // worker as lost.
  absl::Duration lease = absl::Seconds(10);

  // Bounds how long to wait for a live worker of that name to lose its lease: a
  // worker that was killed and starts again comes before its former self is
  // noticed to be gone. Zero gives up at once, with AlreadyExists.
  absl::Duration takeover_timeout = absl::Minutes(1);

  // Bounds each verb of a step, with all that is done again: how long to wait
  // for workers that were lost and for connections that broke. Each attempt is
  // bounded by ClientOptions::timeout as well.
  absl::Duration step_timeout = absl::Minutes(10);

  // True if contributions are copied before they are kept, so that whoever
  // pushes them may write their elements as soon as the verb has returned.
  // Encoded ones need no copy.
  bool keeps_copies = false;

  // Where set, is called each time that a renewal of the lease finds that this
  // is a member no more, with the reason: for those who want to know before the
  // next verb, which joins again by itself. The thread that renews the lease
  // calls it and waits for it, as does the worker's destructor: it must neither
  // destroy the worker nor wait for a thread that does. May be called before
  // Join returns.
  std::function<void(const absl::Status&)> on_membership_lost;
};

// Ends a worker's verb with Cancelled, once somebody has cancelled; null stands
// for a verb that nobody ends. One that joins again ends after its call that is
// under way. What the verb has pushed is forgotten, although the server may
// have it. It counts once if it is pushed again under the same step, but in
// MODE_ASYNC, where no server remembers what it has, it may count twice.
using SharedCanceller = std::shared_ptr<Canceller>;

// What a worker is at present.
enum class WorkerState {
  // It makes steps.
  kActive,
  // A call joins again, or pushes again what the server may lack.
  kRepairing,
  // It makes steps again of which servers may have later ones.
  kRepeating,
  // The server has gone back to an earlier state: pushes are refused until
  // WorkerClient::Resume, which tells the step to go back to.
  kGoneBack,
  // It has left, and makes no steps until WorkerClient::Rejoin.
  kLeft,
};

// VerbOptions bounds a worker's verb.
struct VerbOptions {
  SharedCanceller canceller;
  // Bounds the verb in place of WorkerOptions::step_timeout, where it is set.
  std::optional<absl::Duration> timeout;
};

// ReadOptions bounds a worker's verb, and says how it reads; see Client::Into.
struct ReadOptions {
  // The dtype to which values are converted; kUnknown leaves them as they are
  // stored.
  DType dtype = DType::kUnknown;
  absl::Span<const Destination> into;
  // As in VerbOptions.
  SharedCanceller canceller;
  std::optional<absl::Duration> timeout;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_WORKER_OPTIONS_H_
