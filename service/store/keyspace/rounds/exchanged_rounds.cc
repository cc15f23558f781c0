#include "service/store/keyspace/rounds/exchanged_rounds.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/status_macros.h"
#include "kernels/backend.h"
#include "kernels/update_rule.h"
#include "service/store/counted_buffer.h"
#include "service/store/round_exchange.h"

namespace tensorkv {
namespace {

// Rounds that the servers sum. The store waits for the end of them all.
struct RoundsUnderWay {
  RoundsUnderWay(NamespaceState& state, std::vector<PartialSumOfKey> jobs,
                 EndOfPartialSum end)
      : under_way(state.environment.work_under_way),
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
  std::vector<PartialSumOfKey> jobs;
  const EndOfPartialSum end;
};

// Decodes contributions that came encoded, on the device, into the accumulate
// type, which gives the sum the same bits. The memory for that was
// reserved when they were admitted.
absl::Status Decode(const NamespaceState& state,
                    absl::Span<PartialSumOfKey> jobs,
                    std::vector<RoundToSum>& rounds) {
  // The updates refer to these.
  std::deque<TensorView> encoded;
  std::deque<const Packing*> packings;
  std::vector<TensorUpdate> updates;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const int64_t num_elements = rounds[i].num_elements;
    for (size_t j = 0; j < rounds[i].tensors.size(); ++j) {
      const Slot& slot = jobs[i].partial.slots[j];
      if (!slot.encoding) continue;
      MutableTensorView unpacked = {AccumulateType(rounds[i].dtype),
                                    num_elements};
      ASSIGN_OR_RETURN(
          RefPtr<Buffer> buffer,
          AllocateReserved(jobs[i].partial.decoded.Split(unpacked.size_bytes()),
                           state.device()));
      unpacked.data = buffer->mutable_data();
      encoded.push_back({slot.dtype, num_elements, slot.data});
      packings.push_back(slot.packing());
      updates.push_back({.rule = &UpdateRule::Assign(),
                         .contributions = {&encoded.back(), 1},
                         .packings = {&packings.back(), 1},
                         .value = unpacked});
      ContributedTensor& tensor = rounds[i].tensors[j];
      tensor.dtype = unpacked.dtype;
      tensor.data = buffer->data();
      tensor.buffer = std::move(buffer);
    }
  }
  return updates.empty() ? absl::OkStatus() : state.device().Apply(updates);
}

// Copies sums that are on the host to the device, and waits: what they take of
// the host is free before anybody hears of the end. One for which there is no
// memory becomes an error.
absl::Status CopyToDevice(const NamespaceState& state,
                          std::vector<SummedRound>& summed) {
  std::vector<MemoryCopy> copies;
  std::vector<RefPtr<Buffer>> on_host;
  for (SummedRound& each : summed) {
    if (!each.sum.ok() || !each.sum->buffer) continue;
    if (each.sum->is_on_device) continue;
    RefPtr<Buffer>& sum = each.sum->buffer;
    const size_t bytes = sum->size_bytes();
    absl::StatusOr<RefPtr<Buffer>> on_device = AllocateCounted(
        state.memory.device().contributions, bytes, state.device());
    if (!on_device.ok()) {
      each.sum = on_device.status();
      continue;
    }
    copies.push_back({sum->data(), (*on_device)->mutable_data(), bytes});
    on_host.push_back(std::exchange(sum, *std::move(on_device)));
  }
  return copies.empty() ? absl::OkStatus()
                        : state.device().CopyToDevice(copies);
}

RoundToSum RoundOf(const NamespaceState& state, const PartialSumOfKey& job,
                   Version version_floor) {
  RoundToSum round = {.key = std::string(job.key->name()),
                      .step = job.partial.step,
                      .version = job.version,
                      .version_floor = version_floor,
                      .dtype = job.key->dtype(),
                      .num_elements = job.key->num_elements(),
                      .is_mean = state.has_means()};
  if (state.tensor_placement->copies()) {
    round.device = &state.device();
    round.device_account = state.memory.device().contributions;
  }
  round.tensors.reserve(job.partial.slots.size());
  for (size_t i = 0; i < job.partial.slots.size(); ++i) {
    const Slot& slot = job.partial.slots[i];
    round.tensors.push_back({job.partial.ranks[i], slot.dtype, slot.data,
                             slot.buffer, slot.weight});
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
  return contribution;
}

void EndRounds(RoundsUnderWay& rounds, std::vector<SummedRound> summed) {
  if (rounds.state->tensor_placement->copies()) {
    const absl::Status copied = CopyToDevice(*rounds.state, summed);
    for (SummedRound& each : summed) {
      if (!copied.ok() && each.sum.ok()) each.sum = copied;
    }
  }
  // Sums that came too late are destroyed last.
  std::vector<std::optional<Contribution>> total(summed.size());
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
    rounds.end(transaction, rounds.jobs[summed[i].place], sums[i], total[i]);
  }
  transaction.Unlock();
  // A key that was removed goes with its job: the other rounds may wait long.
  for (const SummedRound& each : summed) rounds.jobs[each.place] = {};
}

// Ends them on the pool: callers have threads that others need, and copying
// sums, or the updates that follow, may wait for the device.
void EndOnPool(const std::shared_ptr<RoundsUnderWay>& rounds,
               std::vector<SummedRound> summed) {
  TaskPool::Task end = [rounds, summed = std::move(summed)]() mutable {
    EndRounds(*rounds, std::move(summed));
  };
  if (!rounds->state->Submit(std::move(end))) std::move(end)();
}

// REQUIRES: only `rounds` has what was brought to them: nothing is counted any
// more once the end is heard.
void FailRounds(const std::shared_ptr<RoundsUnderWay>& rounds,
                const absl::Status& status) {
  std::vector<SummedRound> failed;
  for (size_t i = 0; i < rounds->jobs.size(); ++i) {
    rounds->jobs[i].partial.decoded.Clear();
    failed.push_back({i, status});
  }
  EndOnPool(rounds, std::move(failed));
}

void Exchange(std::shared_ptr<RoundsUnderWay> rounds,
              std::vector<RoundToSum> to_sum) {
  NamespaceState& state = *rounds->state;
  state.environment.exchange->Sum(
      state.name, state.memory.host().contributions, std::move(to_sum),
      [rounds](std::vector<SummedRound> summed) {
        if (!rounds->state->tensor_placement->copies()) {
          return EndRounds(*rounds, std::move(summed));
        }
        EndOnPool(rounds, std::move(summed));
      });
}

}  // namespace

void RunExchange(NamespaceState& state, std::vector<PartialSumOfKey> jobs,
                 EndOfPartialSum end) {
  Version version_floor = 0;
  {
    MutexLock lock(&state.mutex);
    version_floor = state.restored_versions;
  }
  std::vector<RoundToSum> rounds;
  rounds.reserve(jobs.size());
  for (const PartialSumOfKey& job : jobs) {
    rounds.push_back(RoundOf(state, job, version_floor));
  }
  auto under_way =
      std::make_shared<RoundsUnderWay>(state, std::move(jobs), std::move(end));
  const absl::Status decoded =
      Decode(state, absl::MakeSpan(under_way->jobs), rounds);
  if (!decoded.ok()) {
    rounds.clear();
    return FailRounds(under_way, decoded);
  }
  Exchange(std::move(under_way), std::move(rounds));
}

}  // namespace tensorkv
