// What a rule keeps for a key.

#ifndef TENSORKV_KERNELS_STATE_SPEC_H_
#define TENSORKV_KERNELS_STATE_SPEC_H_

#include "absl/strings/string_view.h"

namespace tensorkv {

// One tensor that a rule keeps for a key: shaped like the value, in the
// accumulate type of its dtype.
struct StateSpec {
  absl::string_view name;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_STATE_SPEC_H_
