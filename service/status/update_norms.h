// How large the updates are of a key that somebody looks at.

#ifndef TENSORKV_SERVICE_STATUS_UPDATE_NORMS_H_
#define TENSORKV_SERVICE_STATUS_UPDATE_NORMS_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
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

// The root of the sum of the squares of what an update has changed, in f64.
// None if the tensors, which are in host memory, differ in dtype or shape, or
// their elements are no f16, bf16, f32 or f64.
std::optional<double> NormOfChange(const Tensor& before, const Tensor& after);

// Takes the norm of the next update of each key that is looked at; all other
// updates cost what they did. A look keeps the key's value until its next
// update, or for kPatience: so that update writes into other memory, which has
// been reserved for that. Thread-safe.
class UpdateNorms : public std::enable_shared_from_this<UpdateNorms> {
 public:
  // How many keys are known at a time: those that were looked at last.
  static constexpr size_t kMaxKeys = 8;
  // Larger values are not looked at.
  static constexpr uint64_t kMaxBytes = 64 << 20;
  static constexpr absl::Duration kPatience = absl::Seconds(5);

  // The store outlives it.
  static std::shared_ptr<UpdateNorms> Create(TensorStore* store) {
    return std::shared_ptr<UpdateNorms>(new UpdateNorms(store));
  }

  // The last norm that was taken, if any was; has the next one taken. What
  // cannot be had, of a key that does not exist for one, is none.
  std::optional<UpdateNorm> Look(const std::string& name_space,
                                 const std::string& key);

 private:
  struct LookedAt {
    std::string name_space;
    std::string key;
    bool is_under_way = false;
    std::optional<UpdateNorm> norm;
  };

  explicit UpdateNorms(TensorStore* store) : store_(*store) {}

  LookedAt& Find(const std::string& name_space, const std::string& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Each leads to the next, on whatever thread a value comes.
  void PullBefore(const std::string& name_space, const std::string& key);
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
  std::deque<LookedAt> looks_ ABSL_GUARDED_BY(mutex_);

  // Computes, as nobody who brings a value may be kept. Last: it uses the rest.
  Executor executor_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STATUS_UPDATE_NORMS_H_
