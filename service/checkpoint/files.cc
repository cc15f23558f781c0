#include "service/checkpoint/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

// The system writes no more at once than about 2 GiB.
constexpr size_t kMaxWriteBytes = 64 << 20;

absl::Status ErrorOf(const std::string& path, int error) {
  const std::string message = absl::StrCat(path, ": ", std::strerror(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(message);
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EEXIST:
    case ENOTEMPTY:
      return absl::AlreadyExistsError(message);
    default:
      return absl::InternalError(message);
  }
}

absl::Status ErrorOf(const std::string& path, const std::error_code& error) {
  return error ? ErrorOf(path, error.value()) : absl::OkStatus();
}

absl::Status Write(int fd, const std::string& path, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        write(fd, bytes.data(), std::min(bytes.size(), kMaxWriteBytes));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrorOf(path, errno);
    bytes.remove_prefix(written);
  }
  return absl::OkStatus();
}

absl::Status Sync(int fd, const std::string& path) {
  return fsync(fd) == 0 ? absl::OkStatus() : ErrorOf(path, errno);
}

}  // namespace

absl::Status WriteFile(const std::string& path,
                       absl::Span<const absl::string_view> pieces) {
  const FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file.is_open()) return ErrorOf(path, errno);
  for (const absl::string_view piece : pieces) {
    RETURN_IF_ERROR(Write(file.get(), path, piece));
  }
  return Sync(file.get(), path);
}

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return ErrorOf(path, errno);
  struct stat status;
  if (fstat(file.get(), &status) != 0) return ErrorOf(path, errno);
  return InputFile(path, std::move(file), status.st_size);
}

absl::Status InputFile::Read(uint64_t offset, absl::Span<char> to) const {
  while (!to.empty()) {
    const ssize_t bytes = pread(file_.get(), to.data(), to.size(), offset);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) {
      return absl::DataLossError(absl::StrCat(
          path_, ": ", bytes < 0 ? std::strerror(errno) : "it is cut off"));
    }
    offset += bytes;
    to.remove_prefix(bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<FileStamp> StampOf(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) return ErrorOf(path, errno);
  if (!S_ISREG(status.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": expected a regular file"));
  }
  return FileStamp{
      .bytes = static_cast<uint64_t>(status.st_size),
      .modify_time = status.st_mtim.tv_sec * uint64_t{1'000'000'000} +
                     status.st_mtim.tv_nsec};
}

absl::Status Link(const std::string& from, const std::string& to) {
  return link(from.c_str(), to.c_str()) == 0 ? absl::OkStatus()
                                             : ErrorOf(to, errno);
}

absl::Status RemoveFile(const std::string& path) {
  return unlink(path.c_str()) == 0 ? absl::OkStatus() : ErrorOf(path, errno);
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.size_bytes() > INT_MAX) {
    return absl::DataLossError(absl::StrCat(path, ": it is too large"));
  }
  std::string bytes(file.size_bytes(), '\0');
  RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(bytes)));
  return bytes;
}

absl::Status MakeDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return ErrorOf(path, error);
}

absl::Status SyncDirectory(const std::string& path) {
  const FileDescriptor directory(
      open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open()) return ErrorOf(path, errno);
  return Sync(directory.get(), path);
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                RENAME_NOREPLACE) == 0) {
    return absl::OkStatus();
  }
  return ErrorOf(to, errno);
}

bool Exists(const std::string& path) {
  struct stat status;
  return lstat(path.c_str(), &status) == 0 ||
         (errno != ENOENT && errno != ENOTDIR);
}

absl::Status RemoveDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return ErrorOf(path, error);
}

absl::StatusOr<std::vector<std::string>> ListDirectory(
    const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator it(path, error), end;
       !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  RETURN_IF_ERROR(ErrorOf(path, error));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tensorkv
