#include "client/internal/worker/push_order.h"

#include <algorithm>
#include <iterator>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "client/internal/calls/task_mutex.h"
#include "client/internal/steady_now.h"

namespace tensorkv {

PushOrder::Place PushOrder::Enter(absl::Span<const PushEntry> entries) {
  Push push = {.ended = std::make_shared<Canceller>()};
  push.keys.reserve(entries.size());
  for (const PushEntry& entry : entries) {
    push.keys.push_back(absl::HashOf(absl::string_view(entry.key)));
  }
  std::vector<std::shared_ptr<Canceller>> before;
  MutexLock lock(&mutex_);
  if (!pushes_.empty()) {
    const absl::flat_hash_set<uint64_t> keys(push.keys.begin(),
                                             push.keys.end());
    for (const Push& each : pushes_) {
      const bool shares =
          std::any_of(each.keys.begin(), each.keys.end(),
                      [&](uint64_t key) { return keys.contains(key); });
      if (shares) before.push_back(each.ended);
    }
  }
  has_queued_ |= !before.empty();
  pushes_.push_back(std::move(push));
  return Place(this, std::prev(pushes_.end()), std::move(before));
}

Task<absl::Status> PushOrder::Place::AwaitTurn(
    absl::Duration timeout, const std::shared_ptr<Canceller>& canceller,
    CallThreads* threads) const {
  const absl::Duration end = SteadyNow() + timeout;
  for (const std::shared_ptr<Canceller>& each : before_) {
    const absl::Duration left = end - SteadyNow();
    const absl::Status status =
        co_await AwaitCancel(each, left, canceller, threads);
    CO_RETURN_IF_ERROR(status);
  }
  co_return absl::OkStatus();
}

void PushOrder::Leave(std::list<Push>::iterator push) {
  std::shared_ptr<Canceller> ended;
  {
    MutexLock lock(&mutex_);
    ended = std::move(push->ended);
    pushes_.erase(push);
  }
  ended->Cancel();
}

}  // namespace tensorkv
