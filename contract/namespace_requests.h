// The calls of namespace.proto, which explains their fields.

#ifndef TENSORKV_CONTRACT_NAMESPACE_REQUESTS_H_
#define TENSORKV_CONTRACT_NAMESPACE_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "contract/call_fields.h"
#include "contract/membership_requests.h"
#include "tensor/rule_spec.h"

namespace tensorkv {

// A choice that only newer servers know is kUnknown in what they answer. No
// request has kUnknown.
enum class Mode { kAsync, kSync, kBounded, kUnknown };
enum class OnWorkerLoss { kFail, kContinue, kUnknown };
enum class Aggregation { kSum, kMedian, kTrimmedMean, kUnknown };
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
  bool mirrored = false;

  friend bool operator==(const NamespaceConfig&,
                         const NamespaceConfig&) = default;
};

struct RuleBinding {
  std::string key_pattern;
  RuleSpec rule;
};

struct MultipliersBinding {
  std::string key_pattern;
  Multipliers multipliers;
};

// All are bytes.
struct MemoryUse {
  uint64_t values = 0;
  uint64_t state = 0;
  uint64_t contributions = 0;
  uint64_t metadata = 0;
};

// How much of a namespace is in a GPU's memory.
struct DeviceMemoryUse {
  std::string device;
  MemoryUse memory;
};

// Why a call waits: for a key that does not exist, for a version, for an update
// under way, for a round, for slower workers, for a barrier, for an earlier
// attempt of the same call.
enum class WaitReason : uint8_t {
  kKey,
  kVersion,
  kUpdate,
  kRound,
  kStaleness,
  kBarrier,
  kAttempt,
};
inline constexpr size_t kNumWaitReasons = 7;

// Counts the calls that wait, or have waited, for one reason. A call with
// several counts for its last.
struct WaitStatus {
  WaitReason reason = WaitReason::kKey;
  uint64_t calls_waiting = 0;
  uint64_t calls_ended = 0;
  // The time that the calls which have ended had waited, in all.
  absl::Duration waited;
};

// Counts the contributions of one worker in which the gradient guard has found
// something. Without a rank they are those of which no worker is known.
struct GuardCounts {
  std::optional<uint32_t> rank;
  uint64_t not_finite = 0;
  uint64_t too_large = 0;

  friend bool operator==(const GuardCounts&, const GuardCounts&) = default;
};

struct NamespaceStatus {
  std::string name;
  NamespaceConfig config;
  std::vector<RuleBinding> rules;
  std::vector<MultipliersBinding> multipliers;
  uint64_t num_keys = 0;
  MemoryUse memory;
  // The part of `memory` that is on each GPU; empty where tensors are kept on
  // the host.
  std::vector<DeviceMemoryUse> device_memory;
  uint64_t updates_applied = 0;
  uint64_t rounds_open = 0;
  uint64_t rounds_closed = 0;
  uint64_t rounds_failed = 0;
  uint64_t calls_waiting = 0;
  std::vector<WorkerStatus> workers;
  uint64_t lease_expirations = 0;
  uint64_t contributions_late = 0;
  uint64_t contributions_duplicate = 0;
  uint64_t contributions_fenced = 0;
  // Steps between the fastest worker and the slowest.
  uint64_t slowest_lag = 0;
  // Has one element for each reason.
  std::vector<WaitStatus> waits;
  // Random: another namespace of the same name has another one.
  uint64_t uid = 0;
  // Rises with every change.
  uint64_t revision = 0;
  uint32_t live_workers = 0;
  std::vector<GuardCounts> guard_counts;
};

struct CreateNamespaceRequest {
  std::string name_space;
  NamespaceConfig config;
  OnExisting on_existing = OnExisting::kFail;
  std::optional<CallId> call_id;
  // The uid to give; 0: the server draws one.
  uint64_t namespace_uid = 0;
};

struct CreateNamespaceReply {
  uint64_t uid = 0;
};

struct DescribeNamespaceRequest {
  std::string name_space;
  uint64_t namespace_uid = 0;
};

using DescribeNamespaceReply = NamespaceStatus;

struct ListNamespacesRequest {
  uint32_t page_size = 0;
  std::string page_token;
};

struct ListNamespacesReply {
  std::vector<NamespaceStatus> namespaces;
  std::string next_page_token;
};

struct UpdateNamespaceRequest {
  std::string name_space;
  uint64_t namespace_uid = 0;
  NamespaceConfig config;
  // The names of the fields of `config` that count, as in namespace.proto.
  std::vector<std::string> update_mask;
};

// Returns whether UpdateNamespace changes the field of that path on the servers
// of a cluster too. For a while each may have another value of it.
inline bool MayChangeInClusters(absl::string_view path) {
  return path == "budget_bytes" || absl::StartsWith(path, "gradient_guard");
}

struct UpdateNamespaceReply {
  NamespaceConfig config;
};

struct DeleteNamespaceRequest {
  std::string name_space;
  uint64_t namespace_uid = 0;
  std::optional<CallId> call_id;
};

struct DeleteNamespaceReply {};

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_NAMESPACE_REQUESTS_H_
