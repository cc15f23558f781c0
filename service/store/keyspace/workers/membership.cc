#include "service/store/keyspace/workers/membership.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "contract/reason.h"
#include "service/store/keyspace/pull/pull_ends.h"
#include "service/store/keyspace/rounds/round_endings.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/keyspace/workers/barrier.h"

namespace tensorkv {
namespace {

// Statuses travel in HTTP/2 headers, which are small.
constexpr size_t kMostLossesNamed = 4;

RoundFailurePtr LossOf(const WorkerGroup& workers,
                       absl::Span<const uint32_t> ranks) {
  std::string text;
  for (const uint32_t rank : ranks.subspan(0, kMostLossesNamed)) {
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    workers.DescribeLoss(rank));
  }
  if (ranks.size() > kMostLossesNamed) {
    absl::StrAppend(&text, " and ", ranks.size() - kMostLossesNamed,
                    " more were lost");
  }
  return std::make_shared<RoundFailure>(
      RoundFailure{std::move(text), {ranks.begin(), ranks.end()}});
}

// Fails the waits that only those who are lost could have ended.
void FailWaitsFor(Transaction& transaction, absl::Span<const uint32_t> ranks,
                  const RoundFailure& failure) {
  const NamespaceState& state = transaction.state();
  const auto aborted = [&](absl::string_view subject) {
    return WithReason(
        absl::AbortedError(absl::StrCat(subject, ": ", failure.text)),
        Reason::kWorkerLost, {{"ranks", absl::StrJoin(ranks, ",")}});
  };
  if (state.config.on_worker_loss == OnWorkerLoss::kFail) {
    Step slowest = UINT64_MAX;
    for (const uint32_t rank : ranks) {
      slowest = std::min(slowest, state.workers->step_of(rank));
    }
    FailCalls(
        transaction,
        [slowest](const WaitingCall& call) {
          return call.awaited_step > slowest;
        },
        aborted("waiting for slower workers"));
  }
  FailBarriers(transaction, aborted("barrier"));
}

// Runs when the alarm is due, as the next lease may have ended.
void EndLeases(NamespaceState& state) {
  Transaction transaction(state, Transaction::Thread::kAlarms);
  state.lease_alarm.MarkRung();
  const std::vector<uint32_t> ranks = state.workers->Expired(state.Now());
  if (!ranks.empty()) {
    LoseWorkers(transaction, ranks);
    OnWorkersGone(transaction, ranks);
  }
  SetLeaseAlarm(state);
}

}  // namespace

void LoseWorkers(Transaction& transaction, absl::Span<const uint32_t> ranks) {
  NamespaceState& state = transaction.state();
  const RoundFailurePtr failure = LossOf(*state.workers, ranks);
  for (const uint32_t rank : ranks) {
    transaction.ReportLostWorker(state.workers->DescribeLoss(rank));
  }
  std::vector<std::pair<StoredKey*, Step>> failed;
  if (state.config.on_worker_loss == OnWorkerLoss::kFail) {
    for (StoredKey* key : state.keys_with_rounds) {
      const std::optional<Step> step = key->rounds->FirstWithout(ranks);
      if (step) failed.emplace_back(key, *step);
    }
  }
  FailWaitsFor(transaction, ranks, *failure);
  for (const uint32_t rank : ranks) state.workers->Lose(rank);
  for (const auto& [key, step] : failed) {
    FailRounds(transaction, *key, step, failure);
  }
}

void OnWorkersGone(Transaction& transaction, absl::Span<const uint32_t> ranks) {
  NamespaceState& state = transaction.state();
  Step last_open = 0;
  const std::vector<StoredKey*> keys(state.keys_with_rounds.begin(),
                                     state.keys_with_rounds.end());
  for (StoredKey* key : keys) {
    for (const uint32_t rank : ranks) {
      if (state.mode->MustRepush(rank) &&
          !state.workers->Needs(rank, UINT64_MAX)) {
        key->rounds->ClearRepush(rank);
      }
    }
    CloseRounds(transaction, *key, key->rounds->CloseComplete());
    if (state.workers->LacksThoseWhoLeft() && key->rounds->MayLack(ranks)) {
      EndPullsThatLackWorkers(transaction, *key);
    }
    last_open = std::max(last_open, key->rounds->last_open());
  }
  state.workers->LowerMaxStep(last_open);
  WakeAll(transaction);
  EndBarriers(transaction);
}

void SetLeaseAlarm(NamespaceState& state) {
  state.lease_alarm.RingAt(state.workers->next_expiry(), state, &EndLeases);
}

}  // namespace tensorkv
