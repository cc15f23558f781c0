// The directory of a server's checkpoints, also as others see it.

#ifndef TENSORKV_SERVICE_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
#define TENSORKV_SERVICE_CHECKPOINT_CHECKPOINT_DIRECTORY_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "contract/requests.h"
#include "service/store/snapshot.h"

namespace tensorkv {

// Checks that a checkpoint may have that name: 1 to 128 letters, digits, '-',
// '_' and '.', the first no '.'. Errors: InvalidArgument.
absl::Status CheckCheckpointName(const std::string& name);

// Locks the directory as flock(2) does, until the result is destroyed. `kind`
// is LOCK_EX for the server whose directory it is, or LOCK_SH for one that only
// reads. Does not wait. Errors: Unavailable: another server has locked it ·
// FailedPrecondition: it cannot be locked.
absl::StatusOr<FileDescriptor> LockCheckpoints(const std::string& directory,
                                               int kind);

// Returns the checkpoints whose descriptions can be read, in the order of their
// sequence numbers. Adds to `damages`, if it is not null, a DataLoss error for
// each that cannot. Errors: those of the file system.
absl::StatusOr<std::vector<CheckpointStatus>> ListCheckpointsIn(
    const std::string& directory, std::vector<absl::Status>* damages = nullptr);

// Returns up to `limit` checkpoints whose descriptions can be read and whose
// names come after `after`, in the order of their names. Errors: those of the
// file system.
absl::StatusOr<std::vector<CheckpointStatus>> ListCheckpointsAfter(
    const std::string& directory, const std::string& after, size_t limit);

// Restores to `to` the last checkpoint that has all namespaces of a server that
// does not run, commits it, and returns its status. Errors: Unavailable: the
// server runs · NotFound: there is none · DataLoss (also if any checkpoint
// there is damaged: it might be the last) · those of `to`.
absl::StatusOr<CheckpointStatus> RestoreLastIn(const std::string& directory,
                                               Restoration& to);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
