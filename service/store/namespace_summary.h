// The numbers of namespaces, for whoever counts them.
//
// They are what namespace.proto has as messages of the same names, as values
// that cost little to fill in.

#ifndef TENSORKV_SERVICE_STORE_NAMESPACE_SUMMARY_H_
#define TENSORKV_SERVICE_STORE_NAMESPACE_SUMMARY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "contract/call_fields.h"
#include "contract/namespace_config.h"

namespace tensorkv {

// All are bytes.
struct MemoryUse {
  uint64_t values = 0;
  uint64_t state = 0;
  uint64_t contributions = 0;
  uint64_t metadata = 0;
  uint64_t retained = 0;
};

// How much of a namespace is in a GPU's memory.
struct DeviceMemoryUse {
  std::string device;
  MemoryUse memory;
};

// Why a call waits: for a key that does not exist, for a version, for an update
// under way, for a round, for slower workers, for a barrier, for an earlier
// attempt of the same call, for earlier changes of rules, for a snapshot, for
// what a watch may tell. The messages' numbers follow these, from 1.
enum class WaitReason : uint8_t {
  kKey,
  kVersion,
  kUpdate,
  kRound,
  kStaleness,
  kBarrier,
  kAttempt,
  kRules,
  kSnapshot,
  kChange,
};
inline constexpr size_t kNumWaitReasons = 10;

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

// Counts the values of pulls that ask for what has changed, by how they went.
struct ChangeCounts {
  uint64_t unchanged = 0;
  uint64_t deltas = 0;
  uint64_t delta_bytes = 0;
  uint64_t wholes = 0;
  uint64_t whole_bytes = 0;

  friend bool operator==(const ChangeCounts&, const ChangeCounts&) = default;
};

// The counts of a namespace, whose fields NamespaceStatus explains.
struct NamespaceSummary {
  std::string name;
  uint64_t uid = 0;
  uint64_t revision = 0;
  uint64_t budget_bytes = 0;
  uint64_t num_keys = 0;
  MemoryUse memory;
  std::vector<DeviceMemoryUse> device_memory;
  uint64_t updates_applied = 0;
  uint64_t rounds_open = 0;
  uint64_t rounds_closed = 0;
  uint64_t rounds_failed = 0;
  uint64_t calls_waiting = 0;
  // Has one element for each reason.
  std::vector<WaitStatus> waits;
  uint32_t live_workers = 0;
  uint64_t lease_expirations = 0;
  uint64_t contributions_late = 0;
  uint64_t contributions_duplicate = 0;
  uint64_t contributions_fenced = 0;
  uint64_t slowest_lag = 0;
  std::vector<GuardCounts> guard_counts;
  uint64_t num_snapshots = 0;
  uint64_t changes_told = 0;
  uint64_t watches_compacted = 0;
  uint64_t change_log_bytes = 0;
  // Only metrics have it.
  ChangeCounts changes;
};

// A round that waits for contributions.
struct OpenRound {
  std::string key;
  Step step = 0;
  // The ranks that it waits for; empty while its sum is under way.
  std::vector<uint32_t> missing;
};

// What can be told of the namespaces of a store at little cost. Thread-safe.
class NamespaceSummaries {
 public:
  virtual ~NamespaceSummaries() = default;

  // Returns all namespaces in the order of their names: takes a few
  // microseconds for each, however many rules and workers it has.
  virtual std::vector<NamespaceSummary> Summaries() const = 0;
  // Returns open rounds of the namespace, in order of their steps and keys: all
  // of them, or some if there are thousands. Errors: NotFound.
  virtual absl::StatusOr<std::vector<OpenRound>> OpenRounds(
      absl::string_view name_space) const = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_NAMESPACE_SUMMARY_H_
