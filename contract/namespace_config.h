// The configuration of a namespace, whose fields namespace.proto explains.

#ifndef TENSORKV_CONTRACT_NAMESPACE_CONFIG_H_
#define TENSORKV_CONTRACT_NAMESPACE_CONFIG_H_

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tensor/rule_spec.h"

namespace tensorkv {

// A choice that only newer servers know is kUnknown in what they answer. No
// request that is carried out has kUnknown.
enum class Mode { kAsync, kSync, kBounded, kUnknown };
enum class OnWorkerLoss { kFail, kContinue, kUnknown };
enum class Aggregation { kSum, kMedian, kTrimmedMean, kMean, kUnknown };
enum class SumOrder { kRank, kArrival, kUnknown };
enum class Late { kRefuse, kCarry, kUnknown };
enum class OnNonFinite { kApply, kCount, kSkip, kRefuse, kUnknown };
enum class OnLargeNorm { kClip, kRefuse, kUnknown };

// Says what becomes of contributions that are not finite, or whose Euclidean
// norm exceeds a bound; a bound of 0 is none.
struct GradientGuard {
  OnNonFinite on_non_finite = OnNonFinite::kApply;
  double max_norm = 0;
  OnLargeNorm on_large_norm = OnLargeNorm::kClip;
  double max_call_norm = 0;

  // Returns whether the guard checks contributions at all.
  bool is_on() const {
    return on_non_finite != OnNonFinite::kApply || max_norm > 0 ||
           max_call_norm > 0;
  }

  friend bool operator==(const GradientGuard&, const GradientGuard&) = default;
};

// namespace.proto says for each field what 0 stands for.
struct NamespaceConfig {
  Mode mode = Mode::kAsync;
  uint32_t num_workers = 0;
  uint32_t max_workers = 0;
  RuleSpec rule;
  uint64_t budget_bytes = 0;
  uint32_t staleness = 0;
  OnWorkerLoss on_worker_loss = OnWorkerLoss::kFail;
  bool rescale_partial_rounds = false;
  uint32_t quorum = 0;
  absl::Duration quorum_grace;
  uint32_t max_open_rounds = 0;
  GradientGuard gradient_guard;
  Aggregation aggregation = Aggregation::kSum;
  double trim_fraction = 0;
  SumOrder sum_order = SumOrder::kRank;
  bool mirrored = false;
  uint64_t max_retained_bytes = 0;
  absl::Duration round_timeout;
  Late late = Late::kRefuse;
  double staleness_decay = 0;

  friend bool operator==(const NamespaceConfig&,
                         const NamespaceConfig&) = default;
};

// Returns whether UpdateNamespace changes the field of that path on the servers
// of a cluster too. For a while each may have another value of it.
inline bool MayChangeInClusters(absl::string_view path) {
  return path == "budget_bytes" || path == "max_retained_bytes" ||
         absl::StartsWith(path, "gradient_guard");
}

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_NAMESPACE_CONFIG_H_
