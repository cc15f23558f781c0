// Tells mistakes on the command line from calls that failed.

#ifndef TENSORKV_CLIENT_CLI_USAGE_ERROR_H_
#define TENSORKV_CLIENT_CLI_USAGE_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

// Returns an InvalidArgument status that is known as a mistake of the user.
absl::Status UsageError(absl::string_view message);

// Returns `status`, if it is an error, as a mistake of the user, with `subject`
// (such as "--npy=x.npy") as its prefix.
absl::Status AsUsageError(absl::string_view subject,
                          const absl::Status& status);

bool IsUsageError(const absl::Status& status);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_USAGE_ERROR_H_
