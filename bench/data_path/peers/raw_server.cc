#include "bench/data_path/peers/raw_server.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/payload.h"

namespace tensorkv::bench {
namespace {

// Small requests and replies are received and sent some at a time.
constexpr size_t kBufferBytes = 64 << 10;
// Copying a value of this size costs less than another system call.
constexpr size_t kMaxCopiedBytes = 16 << 10;
// Of one value: what a client can ask the server to keep.
constexpr uint64_t kMaxValueBytes = uint64_t{8} << 30;

absl::Status BrokenConnection(ssize_t result) {
  if (result == 0) return absl::UnavailableError("the peer closed");
  return absl::UnavailableError(
      absl::StrCat("connection broken: ", strerror(errno)));
}

// Receives through a small buffer, and large values past it.
class Receiver {
 public:
  explicit Receiver(int fd)
      : fd_(fd), buffer_(std::make_unique<char[]>(kBufferBytes)) {}

  bool has_bytes() const { return begin_ < end_; }

  absl::Status Receive(char* data, size_t size) {
    while (size > 0) {
      if (!has_bytes() && size >= kBufferBytes) {
        ASSIGN_OR_RETURN(const size_t received, ReceiveSome(data, size));
        data += received;
        size -= received;
        continue;
      }
      if (!has_bytes()) RETURN_IF_ERROR(FillBuffer());
      const size_t copied = std::min(size, end_ - begin_);
      std::memcpy(data, buffer_.get() + begin_, copied);
      begin_ += copied;
      data += copied;
      size -= copied;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status FillBuffer() {
    ASSIGN_OR_RETURN(end_, ReceiveSome(buffer_.get(), kBufferBytes));
    begin_ = 0;
    return absl::OkStatus();
  }

  absl::StatusOr<size_t> ReceiveSome(char* data, size_t size) {
    while (true) {
      const ssize_t received = recv(fd_, data, size, 0);
      if (received > 0) return received;
      // A connection may be silent for as long as it likes.
      const bool is_idle = received < 0 && (errno == EINTR || errno == EAGAIN);
      if (!is_idle) return BrokenConnection(received);
    }
  }

  const int fd_;
  const std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

// Sends small runs of bytes together, and large values from their memory.
class Sender {
 public:
  explicit Sender(int fd) : fd_(fd) { buffer_.reserve(kBufferBytes); }

  absl::Status Send(const char* data, size_t size) {
    if (size <= kMaxCopiedBytes) {
      buffer_.append(data, size);
      if (buffer_.size() + kMaxCopiedBytes <= kBufferBytes) {
        return absl::OkStatus();
      }
      return Flush();
    }
    return SendWithBuffer(data, size);
  }

  absl::Status Flush() {
    if (buffer_.empty()) return absl::OkStatus();
    return SendWithBuffer(nullptr, 0);
  }

 private:
  absl::Status SendWithBuffer(const char* data, size_t size) {
    iovec vectors[] = {{buffer_.data(), buffer_.size()},
                       {const_cast<char*>(data), size}};
    msghdr message = {.msg_iov = vectors, .msg_iovlen = 2};
    while (vectors[0].iov_len + vectors[1].iov_len > 0) {
      const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return BrokenConnection(sent);
      Skip(sent, vectors);
    }
    buffer_.clear();
    return absl::OkStatus();
  }

  static void Skip(size_t size, iovec (&vectors)[2]) {
    for (iovec& vector : vectors) {
      const size_t skipped = std::min(size, vector.iov_len);
      vector.iov_base = static_cast<char*>(vector.iov_base) + skipped;
      vector.iov_len -= skipped;
      size -= skipped;
    }
  }

  const int fd_;
  std::string buffer_;
};

}  // namespace

// One connection.
class RawServer::Session {
 public:
  Session(RawServer* server, int fd)
      : server_(*server), receiver_(fd), sender_(fd) {}

  absl::Status Run() {
    while (true) {
      RawHeader header;
      RETURN_IF_ERROR(
          receiver_.Receive(reinterpret_cast<char*>(&header), sizeof(header)));
      RETURN_IF_ERROR(Answer(header));
      // Replies to requests that have come already go out together.
      if (!receiver_.has_bytes()) RETURN_IF_ERROR(sender_.Flush());
    }
  }

 private:
  absl::Status Answer(const RawHeader& header) {
    switch (header.operation) {
      case RawOperation::kPut:
        return Put(header);
      case RawOperation::kGet:
        return Get(header);
      case RawOperation::kDelete:
        server_.Delete(header.slot);
        return SendHeader(header);
    }
    return absl::InvalidArgumentError(
        absl::StrCat("expected an operation of 1 to 3, got ",
                     static_cast<uint32_t>(header.operation)));
  }

  absl::Status Put(const RawHeader& header) {
    ASSIGN_OR_RETURN(Tensor room,
                     server_.RoomOf(header.slot, header.size_bytes));
    RETURN_IF_ERROR(receiver_.Receive(room.mutable_data(), header.size_bytes));
    return SendHeader(header);
  }

  absl::Status Get(RawHeader header) {
    ASSIGN_OR_RETURN(const Tensor value, server_.ValueOf(header.slot));
    header.size_bytes = value.size_bytes();
    RETURN_IF_ERROR(SendHeader(header));
    return sender_.Send(value.data(), value.size_bytes());
  }

  absl::Status SendHeader(const RawHeader& header) {
    return sender_.Send(reinterpret_cast<const char*>(&header), sizeof(header));
  }

  RawServer& server_;
  Receiver receiver_;
  Sender sender_;
};

absl::Status RawServer::Serve(const Socket& connection) {
  return Session(this, connection.fd()).Run();
}

absl::StatusOr<Tensor> RawServer::RoomOf(uint32_t slot, uint64_t size_bytes) {
  if (size_bytes > kMaxValueBytes || size_bytes % sizeof(float) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a size of whole floats, at most ",
                     kMaxValueBytes, " bytes, got ", size_bytes));
  }
  MutexLock lock(&mutex_);
  Tensor& tensor = slots_[slot];
  if (static_cast<uint64_t>(tensor.size_bytes()) != size_bytes) {
    ASSIGN_OR_RETURN(tensor, MakeRoom(static_cast<int64_t>(size_bytes)));
  }
  return tensor;
}

absl::StatusOr<Tensor> RawServer::ValueOf(uint32_t slot) {
  MutexLock lock(&mutex_);
  const auto found = slots_.find(slot);
  if (found != slots_.end()) return found->second;
  return absl::NotFoundError(
      absl::StrCat("expected a value in slot ", slot, ", got none"));
}

void RawServer::Delete(uint32_t slot) {
  MutexLock lock(&mutex_);
  slots_.erase(slot);
}

absl::Status ServeRaw(const Socket& listener) {
  RawServer server;
  std::vector<std::thread> threads;
  while (true) {
    absl::StatusOr<Socket> connection = AcceptFrom(listener);
    if (!connection.ok()) {
      for (std::thread& thread : threads) thread.join();
      return connection.status();
    }
    threads.emplace_back([&server, socket = *std::move(connection)] {
      // The client sees that the connection is closed.
      server.Serve(socket).IgnoreError();
    });
  }
}

}  // namespace tensorkv::bench
