#include "service/checkpoint/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

// Bounds what is written at once, before it is sent on its way to the disk, and
// read.
constexpr size_t kMaxBytesAtOnce = 8 << 20;

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

// Returns the pieces as the system takes them, none of more than
// kMaxBytesAtOnce.
template <typename Piece>
std::vector<iovec> Vectors(absl::Span<const Piece> pieces) {
  std::vector<iovec> vectors;
  vectors.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    auto* const data = const_cast<char*>(piece.data());
    for (size_t i = 0; i < piece.size(); i += kMaxBytesAtOnce) {
      vectors.push_back(
          {data + i, std::min(piece.size() - i, kMaxBytesAtOnce)});
    }
  }
  return vectors;
}

// Returns how many of them are written or read at once.
size_t NumAtOnce(absl::Span<const iovec> vectors) {
  size_t num_vectors = 0;
  size_t bytes = 0;
  while (num_vectors < std::min<size_t>(vectors.size(), IOV_MAX) &&
         bytes < kMaxBytesAtOnce) {
    bytes += vectors[num_vectors++].iov_len;
  }
  return num_vectors;
}

void RemovePrefix(size_t bytes, absl::Span<iovec>& vectors) {
  while (!vectors.empty() && bytes >= vectors[0].iov_len) {
    bytes -= vectors[0].iov_len;
    vectors.remove_prefix(1);
  }
  if (bytes == 0) return;
  vectors[0].iov_base = static_cast<char*>(vectors[0].iov_base) + bytes;
  vectors[0].iov_len -= bytes;
}

// Reads past the system's cache begin and end at multiples of this, in files
// and in memory: no disk has larger blocks.
constexpr size_t kDirectAlignment = 4096;

size_t AlignedUp(uint64_t bytes) {
  return (bytes + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
}

// Returns whether the disk can fill them as they lie.
bool IsAligned(uint64_t offset, absl::Span<const absl::Span<char>> to) {
  return offset % kDirectAlignment == 0 &&
         std::all_of(to.begin(), to.end(), [](absl::Span<char> each) {
           return reinterpret_cast<uintptr_t>(each.data()) % kDirectAlignment ==
                      0 &&
                  each.size() % kDirectAlignment == 0;
         });
}

// Fills the beginning of `to`, and returns how much of it: all but for the end
// of the file, or an error.
size_t ReadAligned(int fd, uint64_t offset, absl::Span<char> to) {
  ssize_t bytes;
  do {
    bytes = pread(fd, to.data(), to.size(), static_cast<off_t>(offset));
  } while (bytes < 0 && errno == EINTR);
  return std::max<ssize_t>(bytes, 0);
}

// Returns whether the error says that the file system, or the kernel, has no
// such operation.
bool IsNotSupported(int error) {
  return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
}

absl::Status Sync(int fd, const std::string& path) {
  return fsync(fd) == 0 ? absl::OkStatus() : ErrorOf(path, errno);
}

}  // namespace

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path) {
  FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file.is_open()) return ErrorOf(path, errno);
  return OutputFile(path, std::move(file));
}

absl::Status OutputFile::Append(absl::Span<const absl::string_view> pieces) {
  std::vector<iovec> all = Vectors(pieces);
  absl::Span<iovec> vectors = absl::MakeSpan(all);
  while (!vectors.empty()) {
    const ssize_t written = writev(file_.get(), vectors.data(),
                                   static_cast<int>(NumAtOnce(vectors)));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrorOf(path_, errno);
    RemovePrefix(written, vectors);
    // The disk works while the next bytes are copied. It is fsync that tells
    // whether it could.
    sync_file_range(file_.get(), size_bytes_, written, SYNC_FILE_RANGE_WRITE);
    size_bytes_ += written;
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Sync() { return tensorkv::Sync(file_.get(), path_); }

absl::Status WriteFile(const std::string& path,
                       absl::Span<const absl::string_view> pieces) {
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  RETURN_IF_ERROR(file.Append(pieces));
  return file.Sync();
}

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return ErrorOf(path, errno);
  struct stat status;
  if (fstat(file.get(), &status) != 0) return ErrorOf(path, errno);
  // To open a pipe once more would wait for somebody who writes to it.
  FileDescriptor direct(
      S_ISREG(status.st_mode)
          ? open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC)
          : -1);
  return InputFile(path, std::move(file), std::move(direct), status.st_size);
}

absl::Status InputFile::Read(uint64_t offset,
                             absl::Span<const absl::Span<char>> to) const {
  return Fill(file_, offset, to);
}

absl::Status InputFile::Fill(const FileDescriptor& from, uint64_t offset,
                             absl::Span<const absl::Span<char>> to) const {
  std::vector<iovec> all = Vectors(to);
  absl::Span<iovec> vectors = absl::MakeSpan(all);
  while (!vectors.empty()) {
    const ssize_t bytes =
        preadv(from.get(), vectors.data(), static_cast<int>(NumAtOnce(vectors)),
               static_cast<off_t>(offset));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) {
      return absl::DataLossError(absl::StrCat(
          path_, ": ", bytes < 0 ? std::strerror(errno) : "it is cut off"));
    }
    offset += bytes;
    RemovePrefix(bytes, vectors);
  }
  return absl::OkStatus();
}

DirectBuffer::DirectBuffer(size_t max_bytes)
    : memory_(static_cast<char*>(std::aligned_alloc(
          kDirectAlignment, AlignedUp(max_bytes) + kDirectAlignment))),
      size_bytes_(
          memory_ == nullptr ? 0 : AlignedUp(max_bytes) + kDirectAlignment) {}

absl::Status InputFile::ReadUncached(uint64_t offset,
                                     absl::Span<const absl::Span<char>> to,
                                     const DirectBuffer& buffer) const {
  if (direct_.is_open() &&
      (IsAligned(offset, to) ? Fill(direct_, offset, to).ok()
                             : FillThrough(buffer, offset, to))) {
    return absl::OkStatus();
  }
  return Read(offset, to);
}

bool InputFile::FillThrough(const DirectBuffer& buffer, uint64_t offset,
                            absl::Span<const absl::Span<char>> to) const {
  const size_t before = offset % kDirectAlignment;
  size_t end = before;
  for (const absl::Span<char>& each : to) end += each.size();
  if (AlignedUp(end) > buffer.span().size() ||
      ReadAligned(direct_.get(), offset - before,
                  buffer.span().first(AlignedUp(end))) < end) {
    return false;
  }
  const char* from = buffer.span().data() + before;
  for (const absl::Span<char>& each : to) {
    if (!each.empty()) std::memcpy(each.data(), from, each.size());
    from += each.size();
  }
  return true;
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
  RETURN_IF_ERROR(file.Read(0, {absl::MakeSpan(bytes)}));
  return bytes;
}

absl::Status MakeDirectory(const std::string& path) {
  return mkdir(path.c_str(), 0777) == 0 ? absl::OkStatus()
                                        : ErrorOf(path, errno);
}

absl::Status MakeDirectories(const std::string& path) {
  std::vector<std::filesystem::path> missing;
  std::error_code error;
  for (std::filesystem::path each = std::filesystem::absolute(path, error);
       each != each.parent_path() &&
       !std::filesystem::is_directory(each, error);
       each = each.parent_path()) {
    missing.push_back(each);
  }
  std::filesystem::create_directories(path, error);
  RETURN_IF_ERROR(ErrorOf(path, error));
  // A crash would take what has no name on the disk, with all that is in it.
  for (const std::filesystem::path& each : missing) {
    if (each.has_filename()) RETURN_IF_ERROR(SyncDirectory(each.parent_path()));
  }
  return absl::OkStatus();
}

absl::Status SyncDirectory(const std::string& path) {
  const FileDescriptor directory(
      open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open()) return ErrorOf(path, errno);
  // There are file systems that have no such thing for directories.
  return fsync(directory.get()) == 0 || IsNotSupported(errno)
             ? absl::OkStatus()
             : ErrorOf(path, errno);
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                RENAME_NOREPLACE) == 0) {
    return absl::OkStatus();
  }
  if (!IsNotSupported(errno)) return ErrorOf(to, errno);
  // NFS, CephFS and Lustre take no flags. What comes between the look and the
  // renaming is replaced only if it is an empty directory.
  if (Exists(to)) return ErrorOf(to, EEXIST);
  return rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus()
                                               : ErrorOf(to, errno);
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
