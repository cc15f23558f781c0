// Files and directories that survive a crash.

#ifndef TENSORKV_SERVICE_CHECKPOINT_FILES_H_
#define TENSORKV_SERVICE_CHECKPOINT_FILES_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/file_descriptor.h"

namespace tensorkv {

// Errors of all: ResourceExhausted (no space on the disk) · NotFound ·
// AlreadyExists · Internal; messages name the path and the system's reason.

// A new file. Move-only; not thread-safe.
class OutputFile {
 public:
  static absl::StatusOr<OutputFile> Create(const std::string& path);

  // Adds those pieces, one after the other. The disk begins to work on them.
  absl::Status Append(absl::Span<const absl::string_view> pieces);
  // Returns when the bytes are on the disk; the file's name is when its
  // directory is synced.
  absl::Status Sync();

 private:
  OutputFile(std::string path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  FileDescriptor file_;
  uint64_t size_bytes_ = 0;
};

// Makes a file of those pieces, and syncs it.
absl::Status WriteFile(const std::string& path,
                       absl::Span<const absl::string_view> pieces);

// Memory by way of which files are read past the system's cache. Used by one
// thread.
class DirectBuffer {
 public:
  // For up to `max_bytes` at once, wherever they begin.
  explicit DirectBuffer(size_t max_bytes);

  absl::Span<char> span() const { return {memory_.get(), size_bytes_}; }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };

  const std::unique_ptr<char, Free> memory_;
  const size_t size_bytes_;
};

// A file to read. Thread-safe. It is not mapped: a disk that fails while a
// mapping is read ends the process.
class InputFile {
 public:
  static absl::StatusOr<InputFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  uint64_t size_bytes() const { return size_bytes_; }
  // Fills `to`, one after the other, with what the file has from `offset` on.
  // Errors: DataLoss (it ends before, or the disk fails).
  absl::Status Read(uint64_t offset,
                    absl::Span<const absl::Span<char>> to) const;
  // Reads past the system's cache, if the file system can: what is read once
  // takes pages and time there for nothing. Reads by way of `buffer`, unless
  // the bytes lie at multiples of 4 KiB both in the file and in memory.
  absl::Status ReadOnce(uint64_t offset, absl::Span<const absl::Span<char>> to,
                        const DirectBuffer& buffer) const;

 private:
  InputFile(std::string path, FileDescriptor file, FileDescriptor direct,
            uint64_t size_bytes)
      : path_(std::move(path)),
        file_(std::move(file)),
        direct_(std::move(direct)),
        size_bytes_(size_bytes) {}

  absl::Status Fill(const FileDescriptor& from, uint64_t offset,
                    absl::Span<const absl::Span<char>> to) const;
  // From `direct_`. Whether it could.
  bool FillBy(const DirectBuffer& buffer, uint64_t offset,
              absl::Span<const absl::Span<char>> to) const;

  std::string path_;
  FileDescriptor file_;
  // Not open if the file system has no such thing.
  FileDescriptor direct_;
  uint64_t size_bytes_;
};

// FileStamp holds what changes with a file's bytes, and is the same for all its
// hard links.
struct FileStamp {
  uint64_t bytes = 0;
  // Nanoseconds since 1970.
  uint64_t modify_time = 0;

  bool operator==(const FileStamp&) const = default;
};
// Errors: also FailedPrecondition (it is no regular file).
absl::StatusOr<FileStamp> StampOf(const std::string& path);

// Gives the file another name, on the same file system.
absl::Status Link(const std::string& from, const std::string& to);
absl::Status RemoveFile(const std::string& path);

// Returns the bytes of the file. Errors: DataLoss, also if it is larger than a
// message can be.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Makes a directory in one that is there.
absl::Status MakeDirectory(const std::string& path);
// Makes a directory, and those above it; it may be there. What it has made is
// on the disk.
absl::Status MakeDirectories(const std::string& path);
// Has the disk take what has been made, renamed and removed in the directory.
absl::Status SyncDirectory(const std::string& path);
// Gives the directory another name beside it. Nothing may have that name. File
// systems that cannot rename and look at once are taken, too: there, the caller
// keeps others from giving that name to a file or an empty directory meanwhile.
absl::Status Rename(const std::string& from, const std::string& to);
// Returns whether anything has that name; true if nobody can tell.
bool Exists(const std::string& path);
// Removes a directory with all that is in it. It may be missing.
absl::Status RemoveDirectory(const std::string& path);
// Returns the names of what is in the directory, in order.
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CHECKPOINT_FILES_H_
