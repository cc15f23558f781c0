#include "bench/data_path/peers/raw_server.h"

#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/payload.h"
#include "bench/data_path/sockets/socket.h"

namespace tensorkv::bench {
namespace {

// Bounds a value: what a client can ask the server to keep.
constexpr uint64_t kMaxValueBytes = uint64_t{8} << 30;

iovec VectorOf(RawHeader* header) {
  return {.iov_base = header, .iov_len = sizeof(*header)};
}

iovec VectorOf(const Tensor& tensor) {
  return {.iov_base = const_cast<char*>(tensor.data()),
          .iov_len = static_cast<size_t>(tensor.size_bytes())};
}

}  // namespace

absl::Status RawServer::Serve(int connection) {
  while (true) {
    RawHeader header;
    RETURN_IF_ERROR(ReceiveAll(connection, {VectorOf(&header)}));
    RETURN_IF_ERROR(Answer(connection, header));
  }
}

absl::Status RawServer::Answer(int connection, RawHeader header) {
  switch (header.operation) {
    case RawOperation::kPut: {
      ASSIGN_OR_RETURN(const Tensor room,
                       RoomOf(header.slot, header.size_bytes));
      RETURN_IF_ERROR(ReceiveAll(connection, {VectorOf(room)}));
      return SendAll(connection, {VectorOf(&header)});
    }
    case RawOperation::kGet: {
      ASSIGN_OR_RETURN(const Tensor value, ValueOf(header.slot));
      header.size_bytes = value.size_bytes();
      return SendAll(connection, {VectorOf(&header), VectorOf(value)});
    }
    case RawOperation::kDelete:
      Delete(header.slot);
      return SendAll(connection, {VectorOf(&header)});
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected an operation of 1 to 3, got ",
                   static_cast<uint32_t>(header.operation)));
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

absl::Status ServeRaw(int listener) {
  RawServer server;
  std::vector<std::thread> threads;
  while (true) {
    absl::StatusOr<FileDescriptor> connection = AcceptFrom(listener);
    if (!connection.ok()) {
      for (std::thread& thread : threads) thread.join();
      return connection.status();
    }
    threads.emplace_back([&server, socket = *std::move(connection)] {
      // The client sees that the connection is closed.
      server.Serve(socket.get()).IgnoreError();
    });
  }
}

}  // namespace tensorkv::bench
