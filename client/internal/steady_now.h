// The time that measures how long things take.

#ifndef TENSORKV_CLIENT_INTERNAL_STEADY_NOW_H_
#define TENSORKV_CLIENT_INTERNAL_STEADY_NOW_H_

#include <chrono>

#include "absl/time/time.h"

namespace tensorkv {

// Returns the time since an arbitrary start, which never jumps. Thread-safe.
inline absl::Duration SteadyNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_STEADY_NOW_H_
