#include "service/checkpoint/checkpoint_directory.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/checkpoint/files.h"
#include "service/checkpoint/saved_checkpoint.h"

namespace tensorkv {
namespace {

constexpr size_t kMaxNameBytes = 128;

// Returns whether an error of Open tells of a checkpoint that was there. A
// directory of somebody else, or one that is gone meanwhile, is none.
bool IsDamage(const absl::Status& error, const std::string& name,
              const std::string& path) {
  if (!absl::IsNotFound(error)) return true;
  return (absl::StartsWith(name, "auto-") ||
          absl::StartsWith(name, "saved-")) &&
         Exists(path);
}

// Returns the status of the checkpoint of that name; nothing if it is none, or
// if it cannot be read, of which `damages`, if it is not null, gets an error.
std::optional<CheckpointStatus> ReadStatus(const std::string& directory,
                                           const std::string& name,
                                           std::vector<absl::Status>* damages) {
  if (!CheckCheckpointName(name).ok()) return std::nullopt;
  const std::string path = absl::StrCat(directory, "/", name);
  const absl::StatusOr<SavedCheckpoint> saved = SavedCheckpoint::Open(path);
  if (saved.ok()) {
    CheckpointStatus status = saved->status();
    status.set_name(name);
    return status;
  }
  if (damages != nullptr && IsDamage(saved.status(), name, path)) {
    damages->push_back(absl::DataLossError(saved.status().message()));
  }
  return std::nullopt;
}

}  // namespace

absl::Status CheckCheckpointName(const std::string& name) {
  const auto is_allowed = [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  };
  if (!name.empty() && name.size() <= kMaxNameBytes && name[0] != '.' &&
      std::all_of(name.begin(), name.end(), is_allowed)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "name of a checkpoint: expected 1 to ", kMaxNameBytes,
      " letters, digits, '-', '_' and '.', the first no '.', got \"",
      absl::CHexEscape(name.substr(0, kMaxNameBytes)), "\""));
}

absl::StatusOr<FileDescriptor> LockCheckpoints(const std::string& directory,
                                               int kind) {
  FileDescriptor opened(
      open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.is_open() && flock(opened.get(), kind | LOCK_NB) == 0) {
    return opened;
  }
  if (errno == EWOULDBLOCK) {
    return absl::UnavailableError(absl::StrCat(
        "checkpoint_dir: ", directory,
        ": expected a directory that no other server uses; one does"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "checkpoint_dir: ", directory,
      ": expected a directory that can be locked: ", std::strerror(errno)));
}

absl::StatusOr<std::vector<CheckpointStatus>> ListCheckpointsIn(
    const std::string& directory, std::vector<absl::Status>* damages) {
  std::vector<CheckpointStatus> all;
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   ListDirectory(directory));
  for (const std::string& name : names) {
    if (auto status = ReadStatus(directory, name, damages)) {
      all.push_back(*std::move(status));
    }
  }
  std::sort(all.begin(), all.end(),
            [](const CheckpointStatus& a, const CheckpointStatus& b) {
              return a.sequence() < b.sequence();
            });
  return all;
}

absl::StatusOr<std::vector<CheckpointStatus>> ListCheckpointsAfter(
    const std::string& directory, const std::string& after, size_t limit) {
  std::vector<CheckpointStatus> some;
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   ListDirectory(directory));
  for (auto name = std::upper_bound(names.begin(), names.end(), after);
       name != names.end() && some.size() < limit; ++name) {
    if (auto status = ReadStatus(directory, *name, /*damages=*/nullptr)) {
      some.push_back(*std::move(status));
    }
  }
  return some;
}

absl::StatusOr<CheckpointStatus> RestoreLastIn(const std::string& directory,
                                               Restoration& to) {
  if (!Exists(directory)) {
    return absl::NotFoundError(
        absl::StrCat("no directory ", directory, " is to be seen"));
  }
  ASSIGN_OR_RETURN(const FileDescriptor lock,
                   LockCheckpoints(directory, LOCK_SH));
  std::vector<absl::Status> damages;
  ASSIGN_OR_RETURN(std::vector<CheckpointStatus> all,
                   ListCheckpointsIn(directory, &damages));
  if (!damages.empty()) return damages[0];
  for (; !all.empty(); all.pop_back()) {
    ASSIGN_OR_RETURN(
        const SavedCheckpoint saved,
        SavedCheckpoint::Open(absl::StrCat(directory, "/", all.back().name())));
    if (!saved.is_whole()) continue;
    RETURN_IF_ERROR(saved.RestoreTo(to));
    RETURN_IF_ERROR(to.Commit());
    return all.back();
  }
  return absl::NotFoundError(
      absl::StrCat("no whole checkpoint is in ", directory));
}

}  // namespace tensorkv
