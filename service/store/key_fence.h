// Fences keys of a store that take no calls, because they move to another
// server.

#ifndef TENSORKV_SERVICE_STORE_KEY_FENCE_H_
#define TENSORKV_SERVICE_STORE_KEY_FENCE_H_

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
#include "contract/requests.h"

namespace tensorkv {

// Some of the partitions of a placement. A plain value.
struct PartitionSet {
  // Says how many partitions the placement has.
  uint32_t num_partitions = 0;
  std::vector<uint32_t> partitions;
};

// Partitions are open, or fenced by the one move that is under way, or gone.
// Namespaces look at it with their mutex held; so who has changed it, and has
// then had that mutex, knows that every later call finds the change.
// Thread-safe; no lock is taken while its own is held.
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
    // Gives partitions a state.
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

  // Returns null while every key is open.
  std::shared_ptr<const View> view() const;

  // Begins a move: those that were fenced are open again. None of these is
  // fenced before FenceNamespace or FenceAll.
  void Begin(const PartitionSet& partitions);
  // Fences their keys in one namespace, but for contributions up to
  // `last_step`.
  void FenceNamespace(const std::string& name_space, Step last_step);
  // Fences them in all others.
  void FenceAll() {
    Change([](View& view) { view.fences_all_ = true; });
  }
  // Keeps readers out of those that are fenced.
  void Close() {
    Change([](View& view) { view.is_closed_ = true; });
  }
  // Has those that are fenced be open again, or gone.
  void Release() { End(View::State::kOpen); }
  void Leave() { End(View::State::kGone); }
  // Says that they are another server's, also while their keys come here: calls
  // about them are refused.
  void Shut(const PartitionSet& partitions);
  // Takes calls again about those of them that were another server's.
  void Open(const PartitionSet& partitions);

 private:
  // Has view() return a view that was changed so from now on; null where it
  // fences nothing any more.
  void Change(absl::FunctionRef<void(View& view)> change);
  void End(View::State state);

  mutable Mutex mutex_;
  std::shared_ptr<const View> view_ ABSL_GUARDED_BY(mutex_);
};

// Calls view.CheckChange and the like for each of some keys. REQUIRES: `view`
// may be null.
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
