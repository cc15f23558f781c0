#include "service/rpc/wait_bound.h"

#include <algorithm>

namespace tensorkv {

absl::Duration WaitBound(absl::Duration remaining) {
  if (remaining <= absl::ZeroDuration()) return absl::ZeroDuration();
  const absl::Duration rounding = remaining / 100;
  return remaining -
         std::min(remaining / 10, rounding + absl::Milliseconds(200));
}

absl::Duration TimeLeft(std::chrono::system_clock::time_point deadline) {
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return absl::InfiniteDuration();
  }
  return WaitBound(
      absl::FromChrono(deadline - std::chrono::system_clock::now()));
}

}  // namespace tensorkv
