// What the elements of a push are cast to as they are sent.

#ifndef TENSORKV_CLIENT_SEND_CAST_H_
#define TENSORKV_CLIENT_SEND_CAST_H_

#include <atomic>

#include "tensor/dtype.h"

namespace tensorkv {

// Error feedback of one tensor that is cast, in parts and maybe several times:
// elements of `before`, which earlier pushes left out, are added, and what the
// cast leaves out of the sums goes to `after`. Different elements may be cast
// at the same time.
struct CastFeedback {
  const float* before = nullptr;
  float* after = nullptr;
  // Set where finite elements have a sum that is not.
  std::atomic<bool> is_too_large = false;
};

struct SendCast {
  // kUnknown: the elements stay as they are.
  DType dtype = DType::kUnknown;
  // Null: nothing is added, and nothing kept. Outlives the call.
  CastFeedback* feedback = nullptr;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_SEND_CAST_H_
