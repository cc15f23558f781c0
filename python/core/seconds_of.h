// Makes durations of Python's numbers of seconds.

#ifndef TENSORKV_PYTHON_CORE_SECONDS_OF_H_
#define TENSORKV_PYTHON_CORE_SECONDS_OF_H_

#include "absl/time/time.h"

namespace tensorkv::python {

// Returns the duration that `seconds`, the argument `what`, stands for. Throws
// StatusError (InvalidArgument) for NaN, which absl::Seconds takes for
// infinity.
absl::Duration SecondsOf(const char* what, double seconds);

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_SECONDS_OF_H_
