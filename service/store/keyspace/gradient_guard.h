// The gradient guard of a namespace: what it finds in a push, and what follows.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_GRADIENT_GUARD_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_GRADIENT_GUARD_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "contract/requests.h"
#include "service/store/byte_budget.h"
#include "service/store/keyspace/entries_by_key.h"

namespace tensorkv {

// Errors: InvalidArgument (a bound below 0, or not finite; what to do about a
// norm above it, and no bound).
absl::Status CheckGuard(const GradientGuard& guard);

// What the guard finds in a contribution.
enum class GuardFinding : uint8_t { kNothing, kNotFinite, kTooLarge };

// Counts a finding in a contribution of `worker`. The counts are in order of
// ranks, and there is a bound on their number.
void Count(GuardFinding finding, const std::optional<Worker>& worker,
           std::vector<GuardCounts>& counts);

// The guard and one push. Used by one thread.
class GuardedPush {
 public:
  // `account` counts the copies that are made of what is clipped.
  GuardedPush(const GradientGuard& guard, RefPtr<BudgetAccount> account)
      : guard_(guard), account_(std::move(account)) {}

  // Reads all elements of the push once, if the guard is on, and clips what it
  // is to clip. The elements are on the host. Takes long: no mutex is held.
  // Errors: ResourceExhausted (no memory for copies).
  absl::Status Look(PushRequest& request);

  // Whether the push may take effect, but for its repeats.
  // Errors: InvalidArgument (CONTRIBUTION_NOT_FINITE, CONTRIBUTION_TOO_LARGE).
  absl::Status Check(const PushRequest& request,
                     const EntriesByKey& entries) const;

  // Skips what the guard skips, and counts what it has found.
  void TakeEffect(const EntriesByKey& entries, PushRequest& request,
                  std::vector<GuardCounts>& counts) const;

 private:
  // What all contributions of a call are multiplied by, if these are their
  // norms.
  double CallFactor(absl::Span<const double> norms) const;
  // What one of that norm is multiplied by for itself.
  double FactorOf(double norm) const;
  absl::Status Clip(double factor, PushEntry& entry) const;
  bool Refuses(GuardFinding finding) const;
  absl::Status Refusal(const PushRequest& request, uint32_t position) const;
  // Calls `visit` with the position of each finding in what is no repeat.
  template <typename Visitor>
  void ForEachFinding(const EntriesByKey& entries, Visitor visit) const;

  const GradientGuard& guard_;
  const RefPtr<BudgetAccount> account_;
  // Whether the call is above its bound.
  bool is_large_call_ = false;
  // One for each entry; empty if the guard is off.
  std::vector<GuardFinding> findings_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_GRADIENT_GUARD_H_
