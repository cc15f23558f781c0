// The contract's requests and replies as C++ values, for server and client
// alike. What they mean is written in proto/tensorkv/v1/; each struct here
// mirrors the message of its name, a NameReply the NameResponse. Plain values:
// no thread safety, no checks.

#ifndef TENSORKV_CONTRACT_REQUESTS_H_
#define TENSORKV_CONTRACT_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/time/time.h"
#include "base/ref_counted.h"
#include "contract/encoding.h"
#include "contract/placement.h"
#include "contract/row_ids.h"
#include "tensor/dtype.h"
#include "tensor/rule_spec.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Requests have these in common: an empty `name_space` is "default"; a
// `namespace_uid` of 0 takes whatever namespace has that name.

// Per key, from 1. 0 stands for "any" or "none".
using Version = uint64_t;
// A worker's iteration, from 1. 0 stands for "not given".
using Step = uint64_t;

// What a newer server has besides is kUnknown in its answers, never in a
// request.
enum class OnExisting { kFail, kKeep, kReplace };
enum class Mode { kAsync, kSync, kBounded, kUnknown };
enum class OnWorkerLoss { kFail, kContinue, kUnknown };
enum class Aggregation { kSum, kMedian, kTrimmedMean, kUnknown };
enum class OnNonFinite { kApply, kCount, kSkip, kRefuse, kUnknown };
enum class OnLargeNorm { kClip, kRefuse, kUnknown };

struct CallId {
  std::string client_id;
  uint64_t sequence = 0;
};

struct Worker {
  uint32_t rank = 0;
  uint64_t epoch = 0;
};

// --- Keys and values --------------------------------------------------------

struct InitEntry {
  std::string key;
  Tensor tensor;
  std::string state;
};

struct InitRequest {
  std::string name_space;
  std::optional<CallId> call_id;
  OnExisting on_existing = OnExisting::kFail;
  std::vector<InitEntry> entries;
  uint64_t namespace_uid = 0;
};

struct InitReply {
  std::vector<Version> versions;
};

// What is pushed is a tensor, or where `encoding` is set an encoded one: then
// `tensor` is its payload, u8 of rank 1. Where `rows` is set it is rows of one,
// which a PushRows brings; then `tensor` has them one below the other.
struct PushEntry {
  // What the contribution is once it is decoded.
  DType dtype() const { return encoding ? encoding->dtype() : tensor.dtype(); }
  const Shape& shape() const {
    return encoding ? encoding->shape() : tensor.shape();
  }

  std::string key;
  bool skip = false;
  Tensor tensor;
  RefPtr<const Encoding> encoding;
  // In the mean of the rule `average`; 0 stands for 1.
  double weight = 0;
  RefPtr<const RowIds> rows;
  // Only with `rows`: those that are not named get zeros.
  bool updates_all_rows = false;
};

struct PushRequest {
  std::string name_space;
  std::optional<CallId> call_id;
  std::optional<Worker> worker;
  Step step = 0;
  std::vector<PushEntry> entries;
  uint64_t namespace_uid = 0;
  uint64_t max_reply_bytes = 0;
  // What a PushPull converts the values to; as they are stored if unknown.
  DType reply_dtype = DType::kUnknown;
};

struct PushResult {
  Version version = 0;
  Step step = 0;
  bool repeated = false;
};

struct PushReply {
  std::vector<PushResult> results;
};

struct PullEntry {
  std::string key;
  Version min_version = 0;
  std::string state;
  // A PullRows reads these alone.
  RefPtr<const RowIds> rows;
};

struct PullRequest {
  std::string name_space;
  std::optional<Worker> worker;
  bool wait_for_keys = false;
  // What the values are converted to; as they are stored if unknown.
  DType dtype = DType::kUnknown;
  std::vector<PullEntry> entries;
  uint64_t namespace_uid = 0;
  uint64_t max_reply_bytes = 0;
};

struct Value {
  Version version = 0;
  Tensor tensor;
};

struct PullReply {
  std::vector<Value> values;
};

// What is pushed; its keys are pulled.
struct PushPullRequest : PushRequest {};

using PushPullReply = PullReply;

// Requests all of whose entries have rows, but for those which skip.
struct PushRowsRequest : PushRequest {};
struct PullRowsRequest : PullRequest {};

using PushRowsReply = PushReply;
using PullRowsReply = PullReply;

template <typename Request>
inline constexpr bool kIsOfRows = std::is_same_v<Request, PushRowsRequest> ||
                                  std::is_same_v<Request, PullRowsRequest>;

// --- Streams ----------------------------------------------------------------

// A count of 0 on the wire is 1 here.
struct Stripe {
  uint32_t index = 0;
  uint32_t count = 1;
  // The stripes of one attempt share it; 0 for a stream by itself.
  uint64_t group = 0;

  friend bool operator==(const Stripe&, const Stripe&) = default;
};

// The tensors of a manifest have no data. A PullManifest is a PullReply whose
// tensors have none.
struct InitManifest {
  InitRequest request;
  Stripe stripe;
};

struct PushManifest {
  PushRequest request;
  Stripe stripe;
};

struct PullStreamRequest {
  PullRequest request;
  Stripe stripe;
  uint64_t max_part_bytes = 0;
};

// --- Keys -------------------------------------------------------------------

struct DeleteRequest {
  std::string name_space;
  std::optional<CallId> call_id;
  std::vector<std::string> keys;
  bool allow_missing = false;
  uint64_t namespace_uid = 0;
};

struct DeleteReply {
  uint64_t num_deleted = 0;
};

struct ListRequest {
  std::string name_space;
  std::string prefix;
  uint32_t page_size = 0;
  std::string page_token;
};

struct KeyStatus {
  std::string key;
  DType dtype = DType::kF32;
  Shape shape;
  Version version = 0;
  uint64_t value_bytes = 0;
  uint64_t state_bytes = 0;
  RuleSpec rule;
  uint64_t update_count = 0;
  Multipliers multipliers;
  // What the next update would take.
  double learning_rate = 0;
  double weight_decay = 0;
  std::vector<std::string> states;
  std::string device;
  std::optional<uint64_t> digest;
};

struct ListReply {
  std::vector<KeyStatus> keys;
  std::string next_page_token;
};

struct StatRequest {
  std::string name_space;
  std::vector<std::string> keys;
  bool with_digest = false;
};

struct StatReply {
  std::vector<KeyStatus> keys;
};

// --- Namespaces -------------------------------------------------------------

struct GradientGuard {
  OnNonFinite on_non_finite = OnNonFinite::kApply;
  double max_norm = 0;
  OnLargeNorm on_large_norm = OnLargeNorm::kClip;
  double max_call_norm = 0;

  // Whether it looks at contributions at all.
  bool is_on() const {
    return on_non_finite != OnNonFinite::kApply || max_norm > 0 ||
           max_call_norm > 0;
  }

  friend bool operator==(const GradientGuard&, const GradientGuard&) = default;
};

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

struct MemoryUse {
  uint64_t values = 0;
  uint64_t state = 0;
  uint64_t contributions = 0;
  uint64_t metadata = 0;
};

// What is in a GPU's memory.
struct DeviceMemoryUse {
  std::string device;
  MemoryUse memory;
};

struct WorkerStatus {
  std::string name;
  Worker worker;
  bool is_live = false;
  Step step = 0;
  absl::Duration lease_remaining;
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

// Calls that have waited for one reason, the last that each had.
struct WaitStatus {
  WaitReason reason = WaitReason::kKey;
  uint64_t calls_waiting = 0;
  uint64_t calls_ended = 0;
  // By those that have ended, all together.
  absl::Duration waited;
};

// Nobody's, where there is no rank.
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
  // How much of it is on each GPU; empty where tensors are kept on the host.
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
  // One per reason.
  std::vector<WaitStatus> waits;
  uint64_t uid = 0;
  uint64_t revision = 0;
  uint32_t live_workers = 0;
  std::vector<GuardCounts> guard_counts;
};

struct CreateNamespaceRequest {
  std::string name_space;
  NamespaceConfig config;
  OnExisting on_existing = OnExisting::kFail;
  std::optional<CallId> call_id;
};

struct CreateNamespaceReply {
  uint64_t uid = 0;
};

struct DescribeNamespaceRequest {
  std::string name_space;
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

struct DeleteNamespaceRequest {
  std::string name_space;
};

struct DeleteNamespaceReply {};

struct RebalanceNamespaceRequest {
  std::string name_space;
};

struct RebalanceNamespaceReply {
  uint64_t moved_keys = 0;
  uint64_t moved_bytes = 0;
  uint64_t kept_keys = 0;
};

// One of `rule` and `multipliers`.
struct SetRuleRequest {
  std::string name_space;
  std::string key_pattern;
  std::optional<RuleSpec> rule;
  std::optional<Multipliers> multipliers;
  std::optional<CallId> call_id;
};

struct SetRuleReply {};

struct UnsetRuleRequest {
  std::string name_space;
  std::string key_pattern;
  bool multipliers = false;
  std::optional<CallId> call_id;
};

struct UnsetRuleReply {};

struct SetHyperparametersRequest {
  std::string name_space;
  std::string key_pattern;
  Hyperparameters hyperparameters;
  std::optional<CallId> call_id;
};

using SetHyperparametersReply = RuleSpec;

// --- Membership -------------------------------------------------------------

struct JoinRequest {
  std::string name_space;
  std::string worker_name;
  absl::Duration lease;
  std::optional<CallId> call_id;
  uint64_t namespace_uid = 0;
  // 0 replaces none.
  uint64_t replaces_epoch = 0;
  // The server chooses where there is none.
  std::optional<uint32_t> rank;
};

struct JoinReply {
  Worker worker;
  uint32_t num_workers = 0;
  absl::Duration lease;
  uint64_t server_incarnation = 0;
  Step next_step = 0;
};

struct KeepAliveRequest {
  std::string name_space;
  Worker worker;
};

struct KeepAliveReply {
  absl::Duration lease_remaining;
  uint32_t num_workers = 0;
  Step next_step = 0;
};

struct LeaveRequest {
  std::string name_space;
  Worker worker;
  std::optional<CallId> call_id;
};

struct LeaveReply {};

struct BarrierRequest {
  std::string name_space;
  Worker worker;
  std::string barrier;
  std::optional<CallId> call_id;
  uint64_t namespace_uid = 0;
};

struct BarrierReply {};

// --- Checkpoints ------------------------------------------------------------

struct CheckpointStatus {
  std::string name;
  absl::Time create_time;
  uint64_t bytes = 0;
  uint64_t num_keys = 0;
  std::vector<std::string> namespaces;
  uint64_t sequence = 0;
  bool automatic = false;
  uint64_t written_bytes = 0;
};

struct SaveCheckpointRequest {
  std::string name;
  std::vector<std::string> namespaces;
};

using SaveCheckpointReply = CheckpointStatus;

struct RestoreCheckpointRequest {
  std::string name;
  std::vector<std::string> namespaces;
  // Empty: the name that was saved.
  std::string as_namespace;
  OnExisting on_existing = OnExisting::kFail;
};

using RestoreCheckpointReply = CheckpointStatus;

struct ListCheckpointsRequest {};

struct ListCheckpointsReply {
  std::vector<CheckpointStatus> checkpoints;
};

struct DeleteCheckpointRequest {
  std::string name;
};

struct DeleteCheckpointReply {};

struct VerifyCheckpointRequest {
  std::string name;
};

using VerifyCheckpointReply = CheckpointStatus;

// --- Server -----------------------------------------------------------------

struct DescribeServerRequest {};

// What tensors may take of a GPU's memory, and take now.
struct DeviceBudget {
  std::string device;
  uint64_t budget_bytes = 0;
  uint64_t used_bytes = 0;
};

struct ServerStatus {
  std::string version;
  uint64_t incarnation = 0;
  int64_t start_unix_seconds = 0;
  std::vector<std::string> devices;
  uint64_t budget_bytes = 0;
  uint64_t used_bytes = 0;
  uint64_t max_message_bytes = 0;
  uint32_t max_entries = 0;
  // One for each of `devices`; empty where tensors are kept on the host.
  std::vector<DeviceBudget> device_budgets;
};

using DescribeServerReply = ServerStatus;

// --- Cluster ----------------------------------------------------------------

struct DescribeClusterRequest {};

struct DescribeClusterReply {
  // The name of the server that answers; empty if it is in no cluster.
  std::string server_name;
  ClusterPlacement placement;
};

struct ResizeClusterRequest {
  std::vector<std::string> add;
  std::vector<std::string> remove;
  std::vector<std::string> lost;
  bool give_up = false;
};

struct ResizeClusterReply {
  std::vector<ClusterServer> servers;
  uint32_t partitions_to_move = 0;
  uint32_t partitions_to_restore = 0;
};

// The values are those of v1::MovePartitionsRequest.
enum class MoveStep : uint8_t {
  kUnspecified = 0,
  kBegin = 1,
  kPart = 2,
  kCommit = 3,
};

struct MovePartitionsRequest {
  std::string from;
  uint64_t move = 0;
  MoveStep step = MoveStep::kUnspecified;
  std::vector<uint32_t> partitions;
  uint32_t num_partitions = 0;
  uint64_t part = 0;
  std::string data;
  uint64_t placement_version = 0;
  int64_t registration = 0;
};

struct MovePartitionsReply {};

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_REQUESTS_H_
