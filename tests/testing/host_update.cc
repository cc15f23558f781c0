#include "tests/testing/host_update.h"

#include "kernels/cuda/accumulate_types.h"
#include "kernels/cuda/update_elements.h"
#include "kernels/cuda/update_sums.h"
#include "kernels/op_types.h"

namespace tensorkv::testing {
namespace {

// Calls `run` for each chunk or, where blocks have parts of them, each part.
void ForEachTask(const UpdateWork& work, auto run) {
  for (uint32_t task = 0; task < work.num_tasks(); ++task) run(task);
}

// The sums of what `add` adds for each lane, in the order of a block.
template <int num_sums>
void SumLanes(auto add, double (&sums)[num_sums]) {
  double lanes[num_sums][ops::kSumLanes];
  for (uint32_t lane = 0; lane < ops::kSumLanes; ++lane) {
    double of_lane[num_sums] = {};
    add(lane, of_lane);
    for (int k = 0; k < num_sums; ++k) lanes[k][lane] = of_lane[k];
  }
  for (int k = 0; k < num_sums; ++k) sums[k] = ops::SumOfLanes(lanes[k]);
}

template <typename Op, typename T, bool averages>
void UpdateAll(const UpdateWork& work) {
  ForEachTask(work, [&](uint32_t chunk) {
    for (uint32_t thread = 0; thread < kThreadsPerBlock; ++thread) {
      UpdateChunk<Op, T, averages>(work, chunk, thread);
    }
  });
}

template <typename Op, typename T>
void RunRows(const UpdateWork& work) {
  ForEachTask(work, [&](uint32_t chunk) {
    const RowRange rows = RowsOf(work, chunk);
    for (uint64_t row = rows.begin; row < rows.end; ++row) {
      double sum[1];
      SumLanes(
          [&](uint32_t lane, auto& out) {
            out[0] = SumLaneOfRow<Op, T>(work, chunk, row, lane);
          },
          sum);
      UpdateRow<Op, T>(work, chunk, row, sum[0]);
    }
  });
}

template <typename Op, typename T>
void SumColumnParts(const UpdateWork& work) {
  ForEachTask(work, [&](uint32_t chunk) {
    for (uint32_t lane = 0; lane < kThreadsPerBlock; ++lane) {
      SumColumnPart<Op, T>(work, chunk, lane);
    }
  });
}

template <typename Op, typename T>
void RunColumns(const UpdateWork& work) {
  ForEachTask(work, [&](uint32_t chunk) {
    for (uint32_t lane = 0; lane < kThreadsPerBlock; ++lane) {
      UpdateColumn<Op, T>(work, chunk, lane);
    }
  });
}

template <typename Op, typename T>
void SumAll(const UpdateWork& work) {
  ForEachTask(work, [&](uint32_t chunk) {
    double sums[kNumSums<Op>];
    SumLanes([&](uint32_t lane,
                 auto& out) { AddToLane<Op, T>(work, chunk, lane, out); },
             sums);
    StoreChunkSums<Op>(work, chunk, sums);
  });
}

template <typename Op>
void CombineAll(const UpdateWork& work) {
  ForEachTask(work, [&](uint32_t chunk) {
    double sums[kNumSums<Op>];
    SumLanes([&](uint32_t lane,
                 auto& out) { AddChunksToLane<Op>(work, chunk, lane, out); },
             sums);
    StoreTensorSums<Op>(work, chunk, sums);
  });
}

template <typename Op, typename T>
void Run(const UpdateLaunch& launch) {
  if (launch.step == LaunchStep::kUpdate) {
    return UpdateAll<Op, T, false>(launch.work);
  }
  if (launch.step == LaunchStep::kUpdateAveraged) {
    return UpdateAll<Op, T, true>(launch.work);
  }
  if constexpr (ops::kHasRowState<Op>) {
    if (launch.step == LaunchStep::kRows) return RunRows<Op, T>(launch.work);
  }
  if constexpr (ops::kHasColumnState<Op>) {
    if (launch.step == LaunchStep::kColumnParts) {
      return SumColumnParts<Op, T>(launch.work);
    }
    if (launch.step == LaunchStep::kColumns) {
      return RunColumns<Op, T>(launch.work);
    }
  }
  if constexpr (kNumSums < Op >> 0) {
    if (launch.step == LaunchStep::kSum) return SumAll<Op, T>(launch.work);
    CombineAll<Op>(launch.work);
  }
}

}  // namespace

void RunUpdateOnHost(const UpdateLaunch& launch) {
  VisitAccumulateType(launch.accumulate_type, [&](auto type) {
    using T = typename decltype(type)::T;
    VisitOpType<T>(launch.rule,
                   [&](auto op) { Run<typename decltype(op)::Op, T>(launch); });
  });
}

}  // namespace tensorkv::testing
