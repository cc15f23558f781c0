// Holds what the rounds of all keys of a namespace have in common.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUND_POLICY_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUND_POLICY_H_

#include <cstdint>

#include "base/ref_counted.h"
#include "contract/namespace_requests.h"
#include "service/store/keyspace/contribution.h"
#include "service/store/keyspace/steps_to_repush.h"
#include "service/store/keyspace/worker_group.h"

namespace tensorkv {

// SharedRounds is what the rounds of all keys of a namespace share, for one
// thread at a time.
struct SharedRounds {
  StepsToRepush to_repush;
  // The contributors of the round that closed last.
  RefPtr<const Contributors> contributors;
};

// RoundPolicy holds what all keys of a namespace have in common. Workers and
// `shared` outlive the rounds.
struct RoundPolicy {
  const WorkerGroup* workers = nullptr;
  SharedRounds* shared = nullptr;
  uint32_t max_open = 0;
  // How many contributions suffice once the grace time is over; 0: all are
  // needed.
  uint32_t quorum = 0;
  // True if the sum of a round that lacks workers is multiplied by N/n.
  bool rescales = false;
  // If not a sum, no partial sums are made, and each worker brings one tensor.
  Aggregation aggregation = Aggregation::kSum;
  double trim_fraction = 0;
  // True if the round's sum is made by several servers, each of which has the
  // contributions of some ranks.
  bool exchanges = false;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUND_POLICY_H_
