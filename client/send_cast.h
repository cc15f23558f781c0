// Declares how the elements of a push are cast as they are sent.

#ifndef TENSORKV_CLIENT_SEND_CAST_H_
#define TENSORKV_CLIENT_SEND_CAST_H_

#include <atomic>
#include <cstddef>
#include <map>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "tensor/dtype.h"

namespace tensorkv {

// CastRanges keeps which elements of a tensor have been cast, in any order and
// maybe several times. Thread-safe.
class CastRanges {
 public:
  // Adds the elements from `first` up to `end`, which is not one of them.
  void Add(size_t first, size_t end);
  // Returns whether all elements below `size` have been cast.
  bool Cover(size_t size) const;

 private:
  mutable Mutex mutex_;
  // The end of each range by its beginning. They neither overlap nor touch.
  std::map<size_t, size_t> ranges_ ABSL_GUARDED_BY(mutex_);
};

// Error feedback of one tensor that is cast or encoded, in parts and maybe
// several times: elements of `before`, which earlier pushes left out, are
// added, and what the cast leaves out of the sums goes to `after`. Different
// elements may be cast at the same time.
struct CastFeedback {
  const float* before = nullptr;
  float* after = nullptr;
  // True once `before` is to be forgotten: finite elements have had a sum that
  // is not finite, or the tensor could not be encoded.
  std::atomic<bool> forgets_before = false;
  // Says which elements of `after` have been written.
  CastRanges done;
};

// What the elements of one entry are cast to as they are sent.
struct SendCast {
  // kUnknown: the elements stay as they are.
  DType dtype = DType::kUnknown;
  // Null: nothing is added, and nothing kept. Outlives the call.
  CastFeedback* feedback = nullptr;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_SEND_CAST_H_
