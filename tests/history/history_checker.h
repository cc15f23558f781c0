// Whether a history could have happened on a store that keeps its promises.

#ifndef TENSORKV_TESTS_HISTORY_HISTORY_CHECKER_H_
#define TENSORKV_TESTS_HISTORY_HISTORY_CHECKER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "contract/requests.h"
#include "tests/history/history.h"

namespace tensorkv::testing {

// What is wrong with the pushes and pulls of a history, in words; nothing if
// all is well. The order of each key is that of its versions:
//  - each push made a version of its own;
//  - a value is the sum of the pushes up to its version, whole;
//  - order in time is order in versions: who begins after another has ended
//    sees and makes no older version, reads their own writes with it.
// REQUIRES: every push that was applied is in the history.
std::vector<std::string> OrderViolations(
    const std::vector<HistoryEvent>& events);

// The same of steps: a worker's push of step t + 1 ends only when every one of
// `num_workers` has begun that of step t - `staleness`.
std::vector<std::string> StalenessViolations(
    const std::vector<HistoryEvent>& events, int num_workers, Step staleness);

// The same of rounds, which each of `num_workers` contributes to once, however
// often it has to push: the value read in step t is the sum of what all workers
// have contributed to the steps up to t, whole, and nobody reads it before all
// have begun step t.
std::vector<std::string> RoundViolations(
    const std::vector<HistoryEvent>& events, int num_workers);

// The same of rounds whose servers may be restarted from checkpoints, so that
// steps are made again: a value that is read in step t is the sum after t, or
// after a later step, up to `num_steps`, that its server has had before another
// went back. `sum_after` tells the sums, which rise with the steps.
std::vector<std::string> RestoredRoundViolations(
    const std::vector<HistoryEvent>& events, Step num_steps,
    const std::function<int64_t(const std::string& key, Step step)>& sum_after);

// The same of barriers: nobody leaves before all `num_workers` have come.
std::vector<std::string> BarrierViolations(
    const std::vector<HistoryEvent>& events, int num_workers);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_HISTORY_HISTORY_CHECKER_H_
