// Fences keys of a store that take no calls, because they move to another
// server.

#ifndef TENSORKV_SERVICE_STORE_KEY_FENCE_H_
#define TENSORKV_SERVICE_STORE_KEY_FENCE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "contract/call_fields.h"

namespace tensorkv {

// Some of the partitions of a placement. A plain value.
struct PartitionSet {
  // Says how many partitions the placement has.
  uint32_t num_partitions = 0;
  std::vector<uint32_t> partitions;
  // The version of the placement, where they are what it gives a server.
  uint64_t placement_version = 0;
};

// The partitions that a server has by the newest placement that it knows; not
// those that it has yet to restore. Immutable.
class OwnedPartitions {
 public:
  explicit OwnedPartitions(const PartitionSet& partitions);

  bool Has(absl::string_view name_space, absl::string_view key) const;
  // Returns DigestOf them.
  uint64_t digest() const { return digest_; }
  size_t num_partitions() const { return is_owned_.size(); }
  uint64_t placement_version() const { return placement_version_; }

 private:
  const uint64_t digest_;
  const uint64_t placement_version_;
  // By partition.
  std::vector<bool> is_owned_;
};

// Which partitions take calls: a partition is open, or fenced by the one move
// that is under way, or gone to another server. Namespaces look at it with
// their mutex held; so who has changed it, and has then had that mutex, knows
// that every later call finds the change. Thread-safe; no lock is taken while
// its own is held.
class KeyFence {
 public:
  // View is the fence at one moment. Immutable.
  class View {
   public:
    // Checks that a call may change the key. `step` is that of a contribution
    // to a round, else 0. Errors: Unavailable (KEY_MOVING) · FailedPrecondition
    // (WRONG_SERVER: it is gone).
    absl::Status CheckChange(absl::string_view name_space,
                             absl::string_view key, Step step = 0) const;
    // Checks that a call may read the key. Errors: the same.
    absl::Status CheckRead(absl::string_view name_space,
                           absl::string_view key) const;
    // Returns whether the key's partition is one of those fenced.
    bool Fences(absl::string_view name_space, absl::string_view key) const {
      return StateOf(name_space, key) == State::kFenced;
    }

   private:
    friend class KeyFence;
    enum class State : uint8_t { kOpen, kFenced, kGone };

    State StateOf(absl::string_view name_space, absl::string_view key) const;
    // Sets the state of partitions.
    void Set(const PartitionSet& partitions, State state);

    // By partition.
    std::vector<State> states_;
    // Say of the fenced ones whether readers are kept out, too, and whether the
    // keys of every namespace are fenced, or of these alone. Contributions up
    // to the step are taken.
    bool is_closed_ = false;
    bool fences_all_ = false;
    std::map<std::string, Step, std::less<>> last_steps_;
  };

  // Returns a view that fences `partitions` and no others.
  static std::shared_ptr<const View> ViewOf(const PartitionSet& partitions);

  // Returns the fence as it is now; null while every key is open.
  std::shared_ptr<const View> view() const;

  // Begins a move of `partitions`; those of a move before are open again. Calls
  // are refused only from FenceNamespace or FenceAll on.
  void BeginMove(const PartitionSet& partitions);
  // Refuses changes of the keys of the fenced partitions in one namespace, but
  // for contributions up to `last_step`.
  void FenceNamespace(const std::string& name_space, Step last_step);
  // Refuses changes of such keys in all namespaces for which FenceNamespace was
  // not called.
  void FenceAll() {
    Change([](View& view) { view.fences_all_ = true; });
  }
  // Refuses reads of keys in fenced partitions too, and contributions.
  void FenceReads() {
    Change([](View& view) { view.is_closed_ = true; });
  }
  // End the move: the fenced partitions are open again, or gone.
  void Unfence() { End(View::State::kOpen); }
  void GiveAway() { End(View::State::kGone); }
  // Marks partitions as another server's, also while their keys come here:
  // calls about them fail with WRONG_SERVER.
  void MarkGone(const PartitionSet& partitions);
  // Says that the server owns `partitions` by now, and no others. Opens those
  // of them that are gone, and returns these; fenced ones stay fenced.
  PartitionSet Own(const PartitionSet& partitions);
  // Returns what Own has said last; null in no cluster. Who sees an open key
  // that has come sees that it is owned.
  std::shared_ptr<const OwnedPartitions> owned() const;

 private:
  // Replace the view by a changed copy, or by null if all partitions are open.
  void Change(absl::FunctionRef<void(View& view)> change);
  void Replace(View view) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(View::State state);

  mutable Mutex mutex_;
  std::shared_ptr<const View> view_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const OwnedPartitions> owned_ ABSL_GUARDED_BY(mutex_);
};

// Calls `check(*view, entry)`, which calls CheckChange or CheckRead, for each
// entry; returns the first error. OK if `view` is null.
template <typename Entries, typename Check>
absl::Status CheckEach(const std::shared_ptr<const KeyFence::View>& view,
                       const Entries& entries, Check check) {
  if (view == nullptr) return absl::OkStatus();
  for (const auto& entry : entries) {
    absl::Status status = check(*view, entry);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEY_FENCE_H_
