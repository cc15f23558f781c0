// Snapshots as the command line names them.

#ifndef TENSORKV_CLIENT_CLI_SNAPSHOT_TEXT_H_
#define TENSORKV_CLIENT_CLI_SNAPSHOT_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "contract/snapshot_references.h"

namespace tensorkv {

// Reads "SERIES" or "SERIES@latest", "SERIES@42" and "SERIES@>=42". A series
// whose name has an @ is named with one of these after it. Errors:
// InvalidArgument.
absl::StatusOr<SnapshotReference> ParseSnapshot(const std::string& text);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_SNAPSHOT_TEXT_H_
