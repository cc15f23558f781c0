// One moment of a namespace, as plain values: what a checkpoint has of it.

#ifndef TENSORKV_SERVICE_STORE_SNAPSHOT_H_
#define TENSORKV_SERVICE_STORE_SNAPSHOT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/ref_counted.h"
#include "contract/call_fields.h"
#include "contract/namespace_config.h"
#include "service/store/call_answer.h"
#include "service/store/keyspace/rounds/contribution.h"
#include "service/store/rule_binding.h"
#include "service/store/worker_snapshot.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Bounded staleness: the last step that a worker had contributed to a key.
struct ContributionSnapshot {
  Contributor by;
  Step step = 0;
};

// The name in snapshots of the f32 copy that 16-bit keys keep; no rule has a
// state of that name.
inline constexpr absl::string_view kSavedMaster = "f32-master";

struct StateSnapshot {
  // The name of one of the rule's states, or kSavedMaster.
  std::string name;
  Tensor tensor;
};

// A key with its tensors in host memory. A state that no update had filled yet
// is not there.
struct KeySnapshot {
  std::string key;
  Version version = 0;
  uint64_t update_count = 0;
  Tensor value;
  std::vector<StateSnapshot> states;
  // The last rounds that were applied to the key, in the order of their steps.
  std::vector<AppliedRound> rounds;
  // The first step of which contributions were left behind; UINT64_MAX if there
  // were none.
  Step first_unsaved = UINT64_MAX;
  std::vector<ContributionSnapshot> contributions;

  uint64_t size_bytes() const {
    uint64_t bytes = value.size_bytes();
    for (const StateSnapshot& state : states)
      bytes += state.tensor.size_bytes();
    return bytes;
  }
};

// A quorum that still counts for steps up to `last_step`, as it was lower than
// the one that came after.
struct FormerQuorum {
  Step last_step = 0;
  uint32_t quorum = 0;

  friend bool operator==(const FormerQuorum&, const FormerQuorum&) = default;
};

// A namespace without its keys.
struct NamespaceSnapshot {
  std::string name;
  uint64_t uid = 0;
  uint64_t revision = 0;
  // At least as high as any version that a key had by then.
  Version max_version = 0;
  // No update makes a version up to here: the namespace, or one that it has
  // taken over from, may have given it before.
  Version restored_versions = 0;
  NamespaceConfig config;
  // In the order of their steps.
  std::vector<FormerQuorum> former_quorums;
  // In order of precedence, the default last.
  std::vector<RuleBinding> rules;
  std::vector<MultipliersBinding> multipliers;
  std::vector<WorkerSnapshot> workers;
  Step max_closed_step = 0;
  std::vector<ClientSnapshot> clients;
  // The series of named snapshots, with the highest numbers that they have
  // given.
  std::vector<std::pair<std::string, uint64_t>> series;
  // Says how many keys will come, as far as that is known; else 0.
  size_t num_keys = 0;
  // True in the later stages of a move: the keys that follow have changed since
  // the stage before, and replace what came then; the others stay, but for
  // `removed_keys`, which go first.
  bool has_only_changes = false;
  std::vector<std::string> removed_keys;
};

// Takes a snapshot as it is made. Used by one thread.
class SnapshotSink {
 public:
  virtual ~SnapshotSink() = default;

  // Begins a namespace, whose keys follow. An error of this or of the next two
  // ends the snapshot.
  virtual absl::Status Begin(NamespaceSnapshot name_space) = 0;
  // Takes the next key of the namespace; keys come in no order. What of its
  // tensors the namespace has no more is retained until they go.
  virtual absl::Status Add(KeySnapshot key) = 0;
  // Ends the namespace: it has had all its keys.
  virtual absl::Status End() = 0;
  // Hears how long the namespace's mutex, or that of the calls that it
  // remembers, was held at a time, for which other calls waited.
  virtual void Paused(absl::Duration pause) = 0;
};

// Brings namespaces back from a snapshot. The store has none of them before
// Commit; an object that is destroyed before leaves nothing behind. Used by one
// thread.
class Restoration {
 public:
  virtual ~Restoration() = default;

  // Begins a namespace that was saved, whose keys follow by Add; with a new
  // uid, if its own is 0. Its versions go on above all that a namespace of that
  // name may have had since. Errors: InvalidArgument and ResourceExhausted as
  // of CreateNamespace · AlreadyExists (as Commit).
  virtual absl::Status Begin(const NamespaceSnapshot& name_space) = 0;
  // Allocates memory for a tensor of a key of the namespace that was begun
  // last, whose budget counts it. Errors: ResourceExhausted.
  virtual absl::StatusOr<Tensor> Allocate(DType dtype, Shape shape) = 0;
  // Adds keys to the namespace that was begun last. Their tensors are copied,
  // but for those that have memory by Allocate. Errors: those of Init.
  virtual absl::Status Add(std::vector<KeySnapshot> keys) = 0;
  // Puts all namespaces into the store at once. Calls that wait in namespaces
  // that they replace end. REQUIRES: called once, last. Errors: AlreadyExists
  // (unless they replace; the namespace "default" does not count while it has
  // no keys) · ResourceExhausted (LIMIT_REACHED).
  virtual absl::Status Commit() = 0;
};

// Saves the state of a store, and restores it. Thread-safe.
class Snapshots {
 public:
  virtual ~Snapshots() = default;

  // Passes the namespaces of those names to `sink`, or all if there is no name,
  // each as it was at one moment while calls go on. A call's effect is in it
  // whole or not at all. Contributions of rounds that are open are not in it.
  // The namespaces come one after another; where there is no name, one that is
  // deleted before it is due is left out.
  // Errors: NotFound (also if one is deleted before it is due) ·
  // ResourceExhausted (OVER_BUDGET: more must be kept of keys that change
  // meanwhile than may be) · those of the sink and of the device.
  virtual absl::Status TakeSnapshot(const std::vector<std::string>& namespaces,
                                    SnapshotSink& sink) = 0;

  // Returns an object that restores namespaces; the store outlives it.
  // `on_existing` says what Commit does about a namespace whose name is there:
  // REPLACE, or else FAIL.
  virtual std::unique_ptr<Restoration> StartRestoration(
      OnExisting on_existing) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_SNAPSHOT_H_
