#include "service/store/keyspace/exchanged_rounds.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "service/store/round_exchange.h"

namespace tensorkv {
namespace {

// Rounds that the servers sum. The store waits for the end of them all.
struct RoundsUnderWay {
  RoundsUnderWay(NamespaceState& state, std::vector<FoldOfKey> jobs,
                 EndOfFold end)
      : under_way(state.environment.devices->under_way()),
        state(state.shared_from_this()),
        jobs(std::move(jobs)),
        end(std::move(end)) {
    under_way->Begin();
  }
  RoundsUnderWay(const RoundsUnderWay&) = delete;
  ~RoundsUnderWay() {
    jobs.clear();
    state = nullptr;
    under_way->End();
  }

  const std::shared_ptr<WorkUnderWay> under_way;
  std::shared_ptr<NamespaceState> state;
  std::vector<FoldOfKey> jobs;
  const EndOfFold end;
};

RoundToSum RoundOf(const FoldOfKey& job, Version version_floor) {
  RoundToSum round = {.key = std::string(job.key->name()),
                      .step = job.fold.step,
                      .version = job.version,
                      .version_floor = version_floor,
                      .dtype = job.key->dtype(),
                      .num_elements = job.key->num_elements()};
  round.tensors.reserve(job.fold.slots.size());
  for (size_t i = 0; i < job.fold.slots.size(); ++i) {
    const Slot& slot = job.fold.slots[i];
    round.tensors.push_back(
        {job.fold.ranks[i], slot.dtype, slot.data, slot.buffer});
  }
  return round;
}

// A server that was restored passes over versions that it may have given
// before. The others do so with it.
void RaiseFloors(Transaction& transaction,
                 const std::vector<SummedRound>& summed) {
  NamespaceState& state = transaction.state();
  for (const SummedRound& each : summed) {
    if (!each.sum.ok()) continue;
    state.restored_versions =
        std::max(state.restored_versions, each.sum->version_floor);
  }
  state.version_floor = std::max(state.version_floor, state.restored_versions);
}

// Without tensors the round closes as one that all have skipped.
Contribution ContributionOf(DType dtype, SumOfRound sum) {
  Contribution contribution;
  if (sum.num_tensors == 0) return contribution;
  Slot& slot = contribution.slots.emplace_back();
  slot.dtype = AccumulateType(dtype);
  slot.buffer = std::move(sum.buffer);
  slot.data = slot.buffer->data();
  slot.num_entries = sum.num_tensors;
  slot.weight = sum.num_tensors;
  return contribution;
}

void EndRounds(RoundsUnderWay& rounds, std::vector<SummedRound> summed) {
  // What is left of sums that came too late goes last.
  std::vector<std::optional<Contribution>> folded(summed.size());
  std::vector<absl::StatusOr<Contribution>> sums;
  sums.reserve(summed.size());
  for (SummedRound& each : summed) {
    if (each.sum.ok()) {
      const DType dtype = rounds.jobs[each.place].key->dtype();
      sums.push_back(ContributionOf(dtype, *std::move(each.sum)));
    } else {
      sums.push_back(each.sum.status());
    }
  }
  Transaction transaction(*rounds.state);
  RaiseFloors(transaction, summed);
  for (size_t i = 0; i < summed.size(); ++i) {
    rounds.end(transaction, rounds.jobs[summed[i].place], sums[i], folded[i]);
  }
  transaction.Unlock();
  for (const SummedRound& each : summed) {
    rounds.jobs[each.place].fold.slots.clear();
  }
}

}  // namespace

void RunExchange(NamespaceState& state, std::vector<FoldOfKey> jobs,
                 EndOfFold end) {
  Version version_floor = 0;
  {
    MutexLock lock(&state.mutex);
    version_floor = state.restored_versions;
  }
  std::vector<RoundToSum> rounds;
  rounds.reserve(jobs.size());
  for (const FoldOfKey& job : jobs) {
    rounds.push_back(RoundOf(job, version_floor));
  }
  const auto under_way =
      std::make_shared<RoundsUnderWay>(state, std::move(jobs), std::move(end));
  state.environment.exchange->Sum(state.name, state.memory.host().contributions,
                                  std::move(rounds),
                                  [under_way](std::vector<SummedRound> summed) {
                                    EndRounds(*under_way, std::move(summed));
                                  });
}

}  // namespace tensorkv
