// The streams of one call, side by side.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_STRIPE_GROUP_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_STRIPE_GROUP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "client/internal/calls/call_deadline.h"
#include "client/internal/transfer/channel_pool.h"
#include "client/internal/transfer/stripe_stream.h"
#include "client/internal/transfer/stripe_threads.h"
#include "contract/requests.h"

namespace tensorkv {

// A call that is cut into stripes, each a stream on a connection and a thread
// of its own. Used once, by one thread. The pools outlive it.
class StripeGroup {
 public:
  // An Exchange does what one stripe does with its stream, but for finishing
  // it. Returns OK only after Read has returned false.
  using Exchange =
      absl::FunctionRef<absl::Status(StripeStream& stream, const Stripe&)>;

  // Cuts the call into `most_stripes` stripes, or into fewer if there are not
  // as many connections and idle threads. REQUIRES: most_stripes > 0; `method`
  // outlives the call.
  StripeGroup(ChannelPool& channels, StripeThreads& threads, const char* method,
              uint32_t most_stripes, const CallDeadline& deadline);

  uint32_t num_stripes() const { return streams_.size(); }

  // Runs `exchange` for every stripe, at the same time, and ends the streams.
  // When one fails, the others end too.
  // Errors: that of the stripe which failed by itself, whatever the others
  // report because of it.
  absl::Status Run(Exchange exchange);

 private:
  void RunStripe(uint32_t index, Exchange exchange);
  // Keeps the status if it tells more than the one before, and cancels all
  // streams unless it is Aborted: then the server ends them.
  void OnStripeFailed(const absl::Status& status);

  StripeTeam threads_;
  const ChannelPool::Lease channels_;
  std::vector<std::unique_ptr<StripeStream>> streams_;

  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_STRIPE_GROUP_H_
