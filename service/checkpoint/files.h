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

// All functions block. Errors of all: ResourceExhausted (no space on the disk)
// · NotFound · AlreadyExists · Internal; messages name the path and the
// system's reason.

// Writes a new file. Move-only; not thread-safe.
class OutputFile {
 public:
  // Creates the file. Errors: AlreadyExists, if it is there.
  static absl::StatusOr<OutputFile> Create(const std::string& path);

  // Writes the pieces at the end of the file, one after the other. The disk
  // begins to write them, and nobody waits for it.
  absl::Status Append(absl::Span<const absl::string_view> pieces);
  // Returns when the bytes are on the disk. The file's name is there only once
  // its directory is synced, too (SyncDirectory).
  absl::Status Sync();

 private:
  OutputFile(std::string path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  FileDescriptor file_;
  uint64_t size_bytes_ = 0;
};

// Creates a file of those pieces, and syncs it, but not its directory. Errors:
// AlreadyExists, if it is there.
absl::Status WriteFile(const std::string& path,
                       absl::Span<const absl::string_view> pieces);

// DirectBuffer is aligned memory through which InputFile::ReadUncached reads.
// Used by one thread.
class DirectBuffer {
 public:
  // Serves reads of up to `max_bytes`, wherever they begin.
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
  // Fills the pieces `to`, one after the other, with what the file has from
  // `offset` on.
  // Errors: DataLoss (it ends before, or the disk fails).
  absl::Status Read(uint64_t offset,
                    absl::Span<const absl::Span<char>> to) const;
  // Fills `to` as Read does, but past the system's cache (O_DIRECT), if the
  // file system can: what is read only once takes pages and time there for
  // nothing. Reads through `buffer`, unless the bytes lie at multiples of 4 KiB
  // both in the file and in memory. Errors: those of Read.
  absl::Status ReadUncached(uint64_t offset,
                            absl::Span<const absl::Span<char>> to,
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
  // Reads from `direct_` into `buffer` and copies. Returns whether it could.
  bool FillThrough(const DirectBuffer& buffer, uint64_t offset,
                   absl::Span<const absl::Span<char>> to) const;

  std::string path_;
  FileDescriptor file_;
  // Not open if the file system has no such thing.
  FileDescriptor direct_;
  uint64_t size_bytes_;
};

// FileStamp tells whether a file was written since: size and modification time,
// which are the same for all its hard links.
struct FileStamp {
  uint64_t bytes = 0;
  // Nanoseconds since 1970.
  uint64_t modify_time = 0;

  bool operator==(const FileStamp&) const = default;
};
// Returns the file's stamp; follows no symbolic link. Errors: also
// FailedPrecondition: it is no regular file.
absl::StatusOr<FileStamp> StampOf(const std::string& path);

// Makes the hard link `to` to the file `from`, on the same file system.
absl::Status Link(const std::string& from, const std::string& to);
absl::Status RemoveFile(const std::string& path);

// Returns the bytes of the file. Errors: DataLoss, also if it is larger than a
// message can be.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Makes a directory in one that is there.
absl::Status MakeDirectory(const std::string& path);
// Makes a directory, and those above it; it may be there. Syncs the names of
// what it has made.
absl::Status MakeDirectories(const std::string& path);
// Syncs the directory: returns when what was made, renamed and removed in it is
// on the disk. Does nothing where the file system cannot do that.
absl::Status SyncDirectory(const std::string& path);
// Renames a directory, and never replaces anything. Errors: AlreadyExists, if
// something has the name `to`. On file systems that cannot check that in the
// same step, the caller has to keep others from making an empty directory `to`
// meanwhile, which would be replaced.
absl::Status Rename(const std::string& from, const std::string& to);
// Returns whether anything has that name; true if nobody can tell.
bool Exists(const std::string& path);
// Removes a directory, or a file, with all that is in it. OK if it is missing.
absl::Status RemoveDirectory(const std::string& path);
// Returns the names of what is in the directory, in order.
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CHECKPOINT_FILES_H_
