// The names of status codes in metrics.

#ifndef TENSORKV_CONTRACT_CODE_NAMES_H_
#define TENSORKV_CONTRACT_CODE_NAMES_H_

#include <cstddef>
#include <iterator>

#include "absl/status/status.h"

namespace tensorkv {

// Indexed by absl::StatusCode, and spelled as in other libraries of gRPC
// metrics.
inline constexpr const char* kCodeNames[] = {"OK",
                                             "Canceled",
                                             "Unknown",
                                             "InvalidArgument",
                                             "DeadlineExceeded",
                                             "NotFound",
                                             "AlreadyExists",
                                             "PermissionDenied",
                                             "ResourceExhausted",
                                             "FailedPrecondition",
                                             "Aborted",
                                             "OutOfRange",
                                             "Unimplemented",
                                             "Internal",
                                             "Unavailable",
                                             "DataLoss",
                                             "Unauthenticated"};
inline constexpr size_t kNumCodes = std::size(kCodeNames);
static_assert(static_cast<size_t>(absl::StatusCode::kUnauthenticated) + 1 ==
              kNumCodes);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_CODE_NAMES_H_
