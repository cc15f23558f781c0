// A file descriptor that closes itself, and what tells two apart.

#ifndef TENSORKV_BASE_FILE_DESCRIPTOR_H_
#define TENSORKV_BASE_FILE_DESCRIPTOR_H_

#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace tensorkv {

// Owns an open descriptor, or none (-1). Move-only; not thread-safe.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) {
    Reset(other.Release());
    return *this;
  }
  ~FileDescriptor() { Reset(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

  // Returns the descriptor without closing it: the caller owns it.
  int Release() { return std::exchange(fd_, -1); }
  // Closes the descriptor; owns `fd` from then on.
  void Reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

// Returns the inode of the file that `fd` has open, 0 if it has none: it tells
// two files apart that have had the same descriptor one after the other.
inline ino_t InodeOf(int fd) {
  struct stat file;
  return fstat(fd, &file) == 0 ? file.st_ino : 0;
}

}  // namespace tensorkv

#endif  // TENSORKV_BASE_FILE_DESCRIPTOR_H_
