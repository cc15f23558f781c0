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
#include "contract/requests.h"
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
// this update makes a copy. Pushes of tensors reserve room for that anyway, as
// somebody might read the value. Pushes of rows do not: so there is no look
// without twice the room that copies for all looks take. Thread-safe.
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

  // The store outlives it.
  static std::shared_ptr<UpdateNorms> Create(TensorStore* store) {
    return std::shared_ptr<UpdateNorms>(new UpdateNorms(store));
  }

  // Has the next norm taken, if that can be. `free_bytes` is what updates of
  // the namespace find free.
  Looked Look(const std::string& name_space, const std::string& key,
              uint64_t free_bytes);

 private:
  struct Place {
    std::string name_space;
    std::string key;
    bool is_under_way = false;
    // Of the value that is looked at.
    uint64_t bytes = 0;
    std::optional<UpdateNorm> norm;
  };

  explicit UpdateNorms(TensorStore* store) : store_(*store) {}

  // The key's, or a new one in place of the one that was looked at longest
  // ago; null if all are under way.
  Place* Find(const std::string& name_space, const std::string& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Why there is no look at a value of so many bytes now; empty if there is.
  std::string WhyNoRoom(uint64_t bytes, uint64_t free_bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Each leads to the next, on whatever thread a value comes.
  void PullBefore(const std::string& name_space, const std::string& key,
                  uint64_t bytes);
  void PullAfter(const std::string& name_space, const std::string& key,
                 Value before);
  void Compare(const std::string& name_space, const std::string& key,
               const Value& before, const Value& after);
  // Nothing is under way any more for that key.
  void End(const std::string& name_space, const std::string& key,
           std::optional<UpdateNorm> norm);

  TensorStore& store_;

  Mutex mutex_;
  // Those that were looked at last come last.
  std::deque<Place> places_ ABSL_GUARDED_BY(mutex_);

  // Computes, as nobody who brings a value may be kept. Last: it uses the rest.
  Executor executor_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STATUS_UPDATE_NORMS_H_
