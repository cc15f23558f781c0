#include "tests/testing/host_update.h"

#include "kernels/cuda/accumulate_types.h"
#include "kernels/cuda/update_elements.h"
#include "kernels/op_types.h"

namespace tensorkv::testing {
namespace {

// The sum of what `of_lane` gives for each lane, in the order of a block.
template <typename OfLane>
void SumLanes(OfLane of_lane, auto& sums) {
  constexpr int kNumSums = sizeof(sums) / sizeof(double);
  double lanes[kNumSums][ops::kSumLanes];
  for (uint32_t lane = 0; lane < ops::kSumLanes; ++lane) {
    double of_thread[kNumSums] = {};
    of_lane(lane, of_thread);
    for (int k = 0; k < kNumSums; ++k) lanes[k][lane] = of_thread[k];
  }
  for (int k = 0; k < kNumSums; ++k) sums[k] = ops::SumOfLanes(lanes[k]);
}

template <typename Op, typename T>
void UpdateAll(const UpdateWork& work) {
  for (uint32_t chunk = 0; chunk < work.num_chunks; ++chunk) {
    for (uint32_t thread = 0; thread < kThreadsPerBlock; ++thread) {
      UpdateChunk<Op, T>(work, chunk, thread);
    }
  }
}

template <typename Op, typename T>
void SumAll(const UpdateWork& work) {
  for (uint32_t chunk = 0; chunk < work.num_chunks; ++chunk) {
    for (uint32_t part = 0; part < NumSumParts<Op>(work, chunk); ++part) {
      double sums[kSumsOfPart<Op>];
      SumLanes(
          [&](uint32_t lane, auto& of_thread) {
            AddToLane<Op, T>(work, chunk, part, lane, of_thread);
          },
          sums);
      EndPart<Op, T>(work, chunk, part, sums);
    }
  }
}

template <typename Op>
void CombineAll(const UpdateWork& work) {
  for (uint32_t chunk = 0; chunk < work.num_chunks; ++chunk) {
    double sums[kSumsOfPart<Op>];
    SumLanes(
        [&](uint32_t lane, auto& of_thread) {
          AddChunksToLane<Op>(work, chunk, lane, of_thread);
        },
        sums);
    EndChunks<Op>(work, chunk, sums);
  }
}

template <typename Op, typename T>
void Run(const UpdateLaunch& launch) {
  if constexpr (kSumsOfPart < Op >> 0) {
    if (launch.step == LaunchStep::kSum) return SumAll<Op, T>(launch.work);
  }
  if constexpr (ops::SumsOf<Op>().num_phases > 0) {
    if (launch.step == LaunchStep::kCombine) return CombineAll<Op>(launch.work);
  }
  UpdateAll<Op, T>(launch.work);
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
