// Files and directories that survive a crash.

#ifndef TENSORKV_SERVICE_CHECKPOINT_FILES_H_
#define TENSORKV_SERVICE_CHECKPOINT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "tensor/buffer.h"

namespace tensorkv {

// Errors of all: ResourceExhausted (no space on the disk) · NotFound ·
// AlreadyExists · Internal; messages name the path and the system's reason.

// Writes a new file of those pieces, one after the other. Returns when they are
// on the disk; the file's name is when its directory is synced.
absl::Status WriteFile(const std::string& path,
                       absl::Span<const absl::string_view> pieces);
// What the file has. The file must not change while the buffer lives.
absl::StatusOr<RefPtr<Buffer>> MapFile(const std::string& path);

// Makes a directory, and those above it; it may be there.
absl::Status MakeDirectories(const std::string& path);
// What has been made, renamed and removed in the directory is on the disk.
absl::Status SyncDirectory(const std::string& path);
// Gives the directory another name beside it. Nothing may have that name.
absl::Status Rename(const std::string& from, const std::string& to);
// Whether anything has that name; true if nobody can tell.
bool Exists(const std::string& path);
// Removes a directory with all that is in it. It may be missing.
absl::Status RemoveDirectory(const std::string& path);
// The names of what is in the directory, in order.
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CHECKPOINT_FILES_H_
