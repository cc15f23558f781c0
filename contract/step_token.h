// Page tokens of DescribeSteps.

#ifndef TENSORKV_CONTRACT_STEP_TOKEN_H_
#define TENSORKV_CONTRACT_STEP_TOKEN_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

// Returns the token of the page that begins below `step`. Pages go down, and
// their tokens rise.
inline std::string TokenBelowStep(uint64_t step) {
  return absl::StrFormat("%020d", UINT64_MAX - step);
}

// Returns the step below which the page of `token` begins. Errors:
// InvalidArgument.
inline absl::StatusOr<uint64_t> StepAbovePage(absl::string_view token) {
  uint64_t number = 0;
  if (token.size() == 20 && absl::SimpleAtoi(token, &number)) {
    return UINT64_MAX - number;
  }
  return absl::InvalidArgumentError(
      "page_token: expected one that a page has given");
}

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_STEP_TOKEN_H_
