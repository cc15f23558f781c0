// Holds what the rounds of all keys of a namespace have in common.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUND_POLICY_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUND_POLICY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/ref_counted.h"
#include "contract/namespace_config.h"
#include "service/store/keyspace/rounds/contribution.h"
#include "service/store/keyspace/rounds/step_records.h"
#include "service/store/keyspace/rounds/steps_to_repush.h"
#include "service/store/keyspace/snapshots/snapshot_history.h"
#include "service/store/keyspace/workers/worker_group.h"
#include "service/store/snapshot.h"

namespace tensorkv {

// Returns whether contributions are added, be it for a mean, so that partial
// sums can be made and a worker may bring several tensors to a key, and rows.
inline bool Adds(Aggregation aggregation) {
  return aggregation == Aggregation::kSum || aggregation == Aggregation::kMean;
}

// SharedRounds is what the rounds of all keys of a namespace share, for one
// thread at a time.
struct SharedRounds {
  StepsToRepush to_repush;
  // The contributors of the round that closed last.
  RefPtr<const Contributors> contributors;
  // Is told what becomes of rounds and contributions.
  StepRecords records;
};

// RoundPolicy holds what all keys of a namespace have in common. What it points
// to outlives the rounds.
struct RoundPolicy {
  const WorkerGroup* workers = nullptr;
  SharedRounds* shared = nullptr;
  // Null: there are none.
  const SnapshotRevisions* snapshots = nullptr;
  uint32_t max_open = 0;
  // How many contributions suffice once the grace time is over; 0: all are
  // needed. SetQuorum changes it while rounds are open.
  uint32_t quorum = 0;
  // Quorums that were lower, in the order of their steps.
  std::vector<FormerQuorum> former_quorums;
  // True if the sum of a round that lacks workers is multiplied by N/n. Open
  // rounds go by what it was when they began.
  bool rescales = false;
  Aggregation aggregation = Aggregation::kSum;
  double trim_fraction = 0;
  SumOrder sum_order = SumOrder::kRank;
  // True if what is late is carried into the next round, where its weight is
  // multiplied by `staleness_decay` for each step.
  bool carries = false;
  double staleness_decay = 1;
  // True if the round's sum is made by several servers, each of which has the
  // contributions of some ranks.
  bool exchanges = false;

  // Returns how many contributions suffice for a round of that step; 0: all are
  // needed.
  uint32_t QuorumOf(Step step) const {
    uint32_t least = quorum;
    for (const FormerQuorum& each : former_quorums) {
      if (step > each.last_step) continue;
      if (least == 0 || each.quorum < least) least = each.quorum;
    }
    return least;
  }

  // Changes the quorum: a lower one counts at once, for all rounds. A higher
  // one, or none, counts for steps above `reached`, the highest that anybody
  // has reached: up to there a quorum may have closed rounds of some keys, and
  // workers that came late have gone on without that step.
  void SetQuorum(uint32_t next, Step reached) {
    if (quorum != 0 && (next == 0 || next > quorum)) {
      former_quorums.push_back({.last_step = reached, .quorum = quorum});
      ForgetFormer();
    }
    quorum = next;
  }

  // Takes back the former quorums that were saved.
  void RestoreFormer(std::vector<FormerQuorum> saved) {
    former_quorums = std::move(saved);
    ForgetFormer();
  }

 private:
  // Bounds the number of former quorums: the first ones become one, the lowest.
  void ForgetFormer() {
    constexpr size_t kMostFormer = 8;
    while (former_quorums.size() > kMostFormer) {
      former_quorums[1].quorum =
          std::min(former_quorums[0].quorum, former_quorums[1].quorum);
      former_quorums.erase(former_quorums.begin());
    }
  }
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUND_POLICY_H_
