#include "client/internal/transfer/stripe_group.h"

#include <algorithm>

namespace tensorkv {
namespace {

// Returns how much a stripe's status says about why the call failed.
int Weight(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kCancelled:
      return 1;  // by this side, because of another stripe
    case absl::StatusCode::kAborted:
      return 2;  // by the server, which may mean the same
    default:
      return 3;
  }
}

}  // namespace

StripeGroup::StripeGroup(ChannelPool& channels, StripeThreads& threads,
                         const char* method, uint32_t most_stripes,
                         const CallDeadline& deadline)
    : threads_(
          threads.Assemble(std::min<int>(most_stripes, channels.num_bulk()))),
      channels_(channels.BorrowBulk(threads_.size())) {
  for (size_t i = 0; i < channels_.size(); ++i) {
    streams_.push_back(std::make_unique<StripeStream>(
        channels_.channel(i), &channels.server(), method, deadline));
  }
}

absl::Status StripeGroup::Run(Exchange exchange) {
  threads_.Run([&](int index) { RunStripe(index, exchange); });
  MutexLock lock(&mutex_);
  return status_;
}

void StripeGroup::RunStripe(uint32_t index, Exchange exchange) {
  StripeStream& stream = *streams_[index];
  const Stripe stripe = {.index = index, .count = num_stripes()};
  const absl::Status outcome = exchange(stream, stripe);
  const absl::Status status = stream.Finish(outcome);
  if (!status.ok()) OnStripeFailed(status);
}

void StripeGroup::OnStripeFailed(const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    if (Weight(status) > Weight(status_)) status_ = status;
  }
  // The server ends all stripes when one fails, and the one that failed has
  // the status that says why: it must not be cancelled before.
  if (absl::IsAborted(status)) return;
  for (const std::unique_ptr<StripeStream>& stream : streams_) {
    stream->Cancel();
  }
}

}  // namespace tensorkv
