// Reads small files, and waits no longer than it may.

#ifndef TENSORKV_BASE_FILE_READER_H_
#define TENSORKV_BASE_FILE_READER_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tensorkv {

// A file, and the option that names it; an empty path is no file.
struct WatchedFile {
  std::string option;
  std::string path;
};

// A file and what it says; of no file an empty text.
struct FileText {
  std::string option;
  std::string path;
  std::string text;
};

// Returns the texts of the files, in their order. Blocks while the file system
// does. Errors: InvalidArgument, naming the option of the first file that
// cannot be read.
absl::StatusOr<std::vector<FileText>> ReadFiles(
    const std::vector<WatchedFile>& files);

// Reads the same files again and again on a thread of its own: a file system
// that stands still, as one over a network may, keeps that thread alone.
// Thread-safe, but for the destructor.
class FileReader {
 public:
  explicit FileReader(std::vector<WatchedFile> files);
  // Detaches the thread if the file system blocks it, and else joins it.
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  // Blocks until the files are read, and returns the texts that they have now,
  // as ReadFiles does. REQUIRES: one thread calls it at a time.
  // Errors: those of ReadFiles · DeadlineExceeded after `timeout`, naming the
  // options · Cancelled after Stop.
  absl::StatusOr<std::vector<FileText>> Read(absl::Duration timeout);

  // Makes a Read that waits, and later ones, fail with Cancelled. Does not
  // wait.
  void Stop();

 private:
  struct State;

  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace tensorkv

#endif  // TENSORKV_BASE_FILE_READER_H_
