// How large the updates are of a key that somebody looks at.

#ifndef TENSORKV_SERVICE_STATUS_UPDATE_NORMS_H_
#define TENSORKV_SERVICE_STATUS_UPDATE_NORMS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "base/ref_counted.h"
#include "contract/requests.h"
#include "service/store/byte_budget.h"
#include "service/store/tensor_store.h"
#include "tensor/tensor.h"

namespace tensorkv {

struct UpdateNorm {
  // What the update has made.
  Version version = 0;
  // Infinite or no number if an element is.
  double norm = 0;
};

// The root of the sum of the squares of what an update has changed, in f64:
// infinite too where a square of f64 is. None if the tensors, which are in host
// memory, differ in dtype or shape, or their elements are no f16, bf16, f32 or
// f64.
std::optional<double> NormOfChange(const Tensor& before, const Tensor& after);

// Takes the norm of the next update of each key that is looked at; all other
// updates cost what they did. An Init that replaces a value is an update too.
//
// A look keeps the key's value until its next update, or for kPatience, so that
// this update makes a copy. There is no look without twice the room that copies
// for all looks take, and once the budget has no room for others, looks give
// back what they keep, and end without a norm. Thread-safe.
class UpdateNorms : public std::enable_shared_from_this<UpdateNorms> {
 public:
  // How many keys are known at a time, and how many looks may be under way.
  static constexpr size_t kMaxKeys = 8;
  // Of the values of all keys whose looks are under way. Each look may hold two
  // versions.
  static constexpr uint64_t kMaxBytes = 64 << 20;
  static constexpr absl::Duration kPatience = absl::Seconds(5);

  struct Looked {
    // The last that was taken, if any was.
    std::optional<UpdateNorm> norm;
    // Why the next one is not taken; empty if it is.
    std::string why_not;
  };

  // The store outlives it. `budget` is what all that it holds is counted in,
  // and has no other spare.
  static std::shared_ptr<UpdateNorms> Create(TensorStore* store,
                                             RefPtr<ByteBudget> budget) {
    return std::shared_ptr<UpdateNorms>(
        new UpdateNorms(store, std::move(budget)));
  }
  ~UpdateNorms();

  // Has the next norm taken, if that can be. `free_bytes` is what updates of
  // the namespace find free.
  Looked Look(const std::string& name_space, const std::string& key,
              uint64_t free_bytes);

 private:
  struct Place {
    std::string name_space;
    std::string key;
    bool is_under_way = false;
    // Whether a look that is under way has to do without the values.
    bool has_given_back = false;
    // How large the value is that is looked at.
    uint64_t bytes = 0;
    // What the look holds.
    std::optional<Value> before;
    std::optional<Value> after;
    std::optional<UpdateNorm> norm;
  };

  UpdateNorms(TensorStore* store, RefPtr<ByteBudget> budget);

  // The key's, or a new one in place of the one that was looked at longest
  // ago; null if all are under way.
  Place* Find(const std::string& name_space, const std::string& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The key's; null if it has none.
  Place* FindUnderWay(const std::string& name_space, const std::string& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Why there is no look at a value of so many bytes now; empty if there is.
  std::string WhyNoRoom(uint64_t bytes, uint64_t free_bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Each leads to the next, on whatever thread a value comes.
  void PullBefore(const std::string& name_space, const std::string& key,
                  uint64_t bytes);
  void PullAfter(const std::string& name_space, const std::string& key,
                 Version before, uint64_t bytes);
  // Keeps the value, unless the look is to do without.
  void Hold(const std::string& name_space, const std::string& key,
            std::optional<Value> Place::*which, Value value);
  // What the update has changed, as far as the values are still there.
  std::optional<UpdateNorm> Compute(const std::string& name_space,
                                    const std::string& key);
  // Has all looks do without values, as others need the memory.
  void GiveBack();
  // Nothing is under way any more for that key.
  void End(const std::string& name_space, const std::string& key,
           std::optional<UpdateNorm> norm);

  TensorStore& store_;
  const RefPtr<ByteBudget> budget_;

  // Whoever holds it calls nobody, as GiveBack is called with locks held. Fair,
  // so that GiveBack waits for one turn of Compute at most.
  FairMutex mutex_;
  // Those that were looked at last come last.
  std::deque<Place> places_ ABSL_GUARDED_BY(mutex_);

  // Computes, as nobody who brings a value may be kept. Last: it uses the rest.
  Executor executor_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STATUS_UPDATE_NORMS_H_
