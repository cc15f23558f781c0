#include "bench/data_path/exchange.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv::bench {
namespace {

// What one system call takes at most (IOV_MAX is 1024).
constexpr size_t kMaxVectors = 512;

// Calls `move`, which is sendmsg or recvmsg, until all bytes have moved.
template <typename Move>
absl::Status MoveAll(std::vector<iovec> vectors, Move move) {
  size_t next = 0;
  while (true) {
    while (next < vectors.size() && vectors[next].iov_len == 0) ++next;
    if (next == vectors.size()) return absl::OkStatus();
    msghdr message = {
        .msg_iov = &vectors[next],
        .msg_iovlen = std::min(vectors.size() - next, kMaxVectors)};
    ssize_t moved = move(&message);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) {
      return absl::UnavailableError(absl::StrCat(
          "connection: ", moved == 0 ? "the peer closed" : strerror(errno)));
    }
    for (size_t i = next; moved > 0; ++i) {
      const size_t passed = std::min<size_t>(moved, vectors[i].iov_len);
      vectors[i].iov_base = static_cast<char*>(vectors[i].iov_base) + passed;
      vectors[i].iov_len -= passed;
      moved -= static_cast<ssize_t>(passed);
    }
  }
}

}  // namespace

absl::Status SendAll(int connection, std::vector<iovec> vectors) {
  return MoveAll(std::move(vectors), [&](msghdr* message) {
    return sendmsg(connection, message, MSG_NOSIGNAL);
  });
}

absl::Status ReceiveAll(int connection, std::vector<iovec> vectors) {
  return MoveAll(std::move(vectors), [&](msghdr* message) {
    return recvmsg(connection, message, 0);
  });
}

void Exchange::Message::Add(absl::string_view more) {
  if (segments.empty() || segments.back().values != nullptr) {
    segments.emplace_back();
  }
  segments.back().size += more.size();
  text.append(more.data(), more.size());
}

std::vector<iovec> Exchange::Message::VectorsOver(char* at) const {
  std::vector<iovec> vectors;
  vectors.reserve(segments.size());
  for (const Segment& segment : segments) {
    vectors.push_back({segment.values ? segment.values : at, segment.size});
    if (segment.values == nullptr) at += segment.size;
  }
  return vectors;
}

absl::Status Exchange::Run(int connection) {
  received_.resize(reply_.text.size());
  RETURN_IF_ERROR(
      SendAll(connection, request_.VectorsOver(request_.text.data())));
  RETURN_IF_ERROR(ReceiveAll(connection, reply_.VectorsOver(received_.data())));
  if (received_ == reply_.text) return absl::OkStatus();
  constexpr size_t kMostShown = 200;
  return absl::InternalError(absl::StrCat(
      "expected \"", absl::CEscape(reply_.text.substr(0, kMostShown)),
      "\", got \"", absl::CEscape(received_.substr(0, kMostShown)), "\""));
}

}  // namespace tensorkv::bench
