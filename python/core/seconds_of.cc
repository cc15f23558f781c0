#include "python/core/seconds_of.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "python/core/status_error.h"

namespace tensorkv::python {

absl::Duration SecondsOf(const char* what, double seconds) {
  if (!std::isnan(seconds)) return absl::Seconds(seconds);
  throw StatusError(absl::InvalidArgumentError(
      absl::StrCat(what, ": expected a number of seconds, got nan")));
}

}  // namespace tensorkv::python
