// The gradient guard of a namespace: what it finds in a push, and what follows.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_GRADIENT_GUARD_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_GRADIENT_GUARD_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/ref_counted.h"
#include "contract/data_requests.h"
#include "contract/namespace_config.h"
#include "service/store/byte_budget.h"
#include "service/store/keyspace/push/entries_by_key.h"
#include "service/store/keyspace/rounds/step_record.h"
#include "service/store/namespace_summary.h"

namespace tensorkv {

// Checks the configuration of a guard. Errors: InvalidArgument (a bound below
// 0, or not finite; what to do about a norm above it, and no bound).
absl::Status CheckGuard(const GradientGuard& guard);

// GuardFinding is what the guard finds in a contribution.
enum class GuardFinding : uint8_t { kNothing, kNotFinite, kTooLarge };

// The guard and one push. Used by one thread.
class GuardedPush {
 public:
  // `has_ranks` says that the namespace has a group, so that whoever has a rank
  // is counted by it; `account` counts the copies that are made of what is
  // clipped.
  GuardedPush(const GradientGuard& guard, bool has_ranks,
              RefPtr<BudgetAccount> account)
      : guard_(guard), has_ranks_(has_ranks), account_(std::move(account)) {}

  bool is_on() const { return guard_.is_on(); }

  // If the guard is on: reads all elements of the push, which are on the host,
  // keeps what it finds, and scales down in `request` what it is to clip. Takes
  // long: no mutex is held. Errors: ResourceExhausted (no memory for copies).
  absl::Status MeasureAndClip(PushRequest& request);

  // Checks that the guard refuses nothing of the push; entries that are repeats
  // do not matter. If it refuses the push, adds all that MeasureAndClip has
  // found to `counts`, which stay in order of ranks. Errors: InvalidArgument
  // (CONTRIBUTION_NOT_FINITE, CONTRIBUTION_TOO_LARGE).
  absl::Status Check(const PushRequest& request, const EntriesByKey& entries,
                     std::vector<GuardCounts>& counts) const;

  // For a push that takes effect: sets `skip` of the entries that the guard
  // skips, and adds all that MeasureAndClip has found to `counts`.
  void SkipAndCount(const EntriesByKey& entries, PushRequest& request,
                    std::vector<GuardCounts>& counts) const;

  // Returns what it does to a push that Check has refused, or to one that takes
  // effect.
  GuardEffects Effects(const EntriesByKey& entries, bool is_refused) const;

 private:
  // Takes the norms of the entries, and finds those that are not finite.
  void Measure(const PushRequest& request);
  // Returns the norm of all contributions together, each clipped for itself.
  double NormOfCall() const;
  // Returns the factor that a contribution of that norm is multiplied by for
  // itself.
  double FactorOf(double norm) const;
  // Multiplies the elements by `factor`, in a copy if others may see them.
  absl::Status Clip(double factor, PushEntry& entry) const;
  // Returns whether the guard refuses a push with that finding.
  bool Refuses(GuardFinding finding) const;
  // Adds a finding to the worker's count.
  void Count(GuardFinding finding, const std::optional<Worker>& worker,
             std::vector<GuardCounts>& counts) const;
  // Returns the error for the finding in the entry at `position`.
  absl::Status Refusal(const PushRequest& request, uint32_t position) const;
  // Calls `visit` with the position of each finding in what is no repeat.
  template <typename Visitor>
  void ForEachFinding(const EntriesByKey& entries, Visitor visit) const;

  const GradientGuard guard_;
  const bool has_ranks_;
  const RefPtr<BudgetAccount> account_;
  // These are one for each entry; empty if the guard is off. The norm is 0 of
  // what none is taken of.
  std::vector<GuardFinding> findings_;
  std::vector<double> norms_;
  // Only if there is a bound on it.
  double call_norm_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_GRADIENT_GUARD_H_
