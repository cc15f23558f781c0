// Exports what a store holds, as metrics.

#ifndef TENSORKV_SERVICE_METRICS_STORE_COLLECTABLE_H_
#define TENSORKV_SERVICE_METRICS_STORE_COLLECTABLE_H_

#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "service/store/namespace_summary.h"

namespace tensorkv {

// Reads the namespaces at every scrape, so that the store counts everything
// once. Thread-safe.
//
//   tensorkv_keys                    keys now
//   tensorkv_memory_bytes            bytes held, by use: values, state,
//                                    contributions, metadata
//   tensorkv_retained_bytes          bytes that only snapshots need
//   tensorkv_namespace_budget_bytes  how many it may hold
//   tensorkv_device_memory_bytes     how much of it is on the GPU, by use;
//                                    label: device
//   tensorkv_updates_total           updates applied
//   tensorkv_rounds_open             rounds that wait for contributions
//   tensorkv_rounds_closed_total
//   tensorkv_rounds_failed_total
//   tensorkv_calls_waiting           calls that wait
//   tensorkv_waiting                 the same by reason: key, version, update,
//                                    round, staleness, barrier, attempt
//   tensorkv_waited_seconds          sum and count of ended waits, by reason
//   tensorkv_workers_live            members whose lease has not ended
//   tensorkv_lease_expirations_total
//   tensorkv_contributions_refused_total  by reason: late, duplicate, fenced
//   tensorkv_contributions_guarded_total  by rank and reason: not_finite,
//                                         too_large
//   tensorkv_slowest_worker_lag_steps     behind the fastest
//   tensorkv_changes_sent_total        values of pulls that ask for what has
//                                      changed, by what went: unchanged, delta,
//                                      whole
//   tensorkv_changes_sent_bytes_total  their bytes, by delta and whole
//
// label: namespace. The store bounds the number of namespaces. Reasons that no
// call has waited for yet are left out.
class StoreCollectable final : public prometheus::Collectable {
 public:
  // `namespaces` outlives this object.
  explicit StoreCollectable(const NamespaceSummaries* namespaces)
      : namespaces_(*namespaces) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const NamespaceSummaries& namespaces_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_STORE_COLLECTABLE_H_
