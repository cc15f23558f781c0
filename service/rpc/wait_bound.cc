#include "service/rpc/wait_bound.h"

#include <algorithm>

namespace tensorkv {

absl::Duration WaitBound(absl::Duration remaining) {
  if (remaining <= absl::ZeroDuration()) return absl::ZeroDuration();
  const absl::Duration rounding = remaining / 100;
  return remaining -
         std::min(remaining / 20, rounding + absl::Milliseconds(200));
}

}  // namespace tensorkv
