// The directory of a server's checkpoints, also as others see it.

#ifndef TENSORKV_SERVICE_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
#define TENSORKV_SERVICE_CHECKPOINT_CHECKPOINT_DIRECTORY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "contract/requests.h"
#include "service/store/snapshot.h"

namespace tensorkv {

// Errors: InvalidArgument.
absl::Status CheckCheckpointName(const std::string& name);

// Keeps other servers from the directory as long as the result lives: LOCK_EX,
// or LOCK_SH for who only reads. Errors: Unavailable: one has it ·
// FailedPrecondition: it cannot be locked.
absl::StatusOr<FileDescriptor> LockCheckpoints(const std::string& directory,
                                               int kind);

// Returns the checkpoints that can be read, by their sequence; `damages`, if
// not null, tells why each of the others cannot. Errors: those of the file
// system.
absl::StatusOr<std::vector<CheckpointStatus>> ListCheckpointsIn(
    const std::string& directory, std::vector<absl::Status>* damages = nullptr);

// Gives `to` the last whole checkpoint of a server that does not run, with its
// Commit. Errors: Unavailable: it does run · NotFound: there is none · DataLoss
// (also if any checkpoint there is damaged: it might be the last) ·
// those of `to`.
absl::StatusOr<CheckpointStatus> RestoreLastIn(const std::string& directory,
                                               Restoration& to);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
