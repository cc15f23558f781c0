#include "service/server/connection_guard.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "service/server/http2_scanner.h"
#include "service/server/unfinished_messages.h"

namespace tensorkv {
namespace {

using Clock = std::chrono::steady_clock;

// Fills at a rate, up to a size. Not thread-safe.
class Allowance {
 public:
  Allowance(double size, double per_second, double now)
      : size_(size), per_second_(per_second), left_(now), time_(Clock::now()) {}

  // Returns false, and takes nothing, if so many are not there.
  bool Take(double count) {
    Refill();
    if (left_ < count) return false;
    left_ -= count;
    return true;
  }
  bool IsFull() {
    Refill();
    return left_ >= size_;
  }

 private:
  void Refill() {
    const Clock::time_point now = Clock::now();
    const std::chrono::duration<double> past = now - time_;
    left_ = std::min(size_, left_ + past.count() * per_second_);
    time_ = now;
  }

  double size_;
  double per_second_;
  double left_;
  Clock::time_point time_;
};

// Whoever can have one of these addresses can have all that look the same here:
// of IPv6 addresses, the network counts.
std::string AddressOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size);
  char text[INET6_ADDRSTRLEN] = "unix";
  if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in&>(address).sin_addr, text,
              sizeof(text));
  } else if (address.ss_family == AF_INET6) {
    in6_addr network = reinterpret_cast<sockaddr_in6&>(address).sin6_addr;
    std::fill(network.s6_addr + 8, network.s6_addr + 16, 0);
    inet_ntop(AF_INET6, &network, text, sizeof(text));
  }
  return text;
}

}  // namespace

class ConnectionGuard::State {
 public:
  State(uint64_t max_unfinished_bytes,
        std::function<void(absl::string_view)> cut)
      : cut_(std::move(cut)), unfinished_(max_unfinished_bytes) {}

  bool TakeResets(const std::string& address, uint32_t count) {
    MutexLock lock(&mutex_);
    if (allowances_.size() >= kMaxAddresses) {
      absl::erase_if(allowances_,
                     [](auto& each) { return each.second.IsFull(); });
    }
    const auto [allowance, is_new] = allowances_.try_emplace(
        address, kMaxResets, kResetsPerSecond, kMaxResets);
    return allowance->second.Take(count);
  }

  void Cut(const std::string& address, absl::string_view why) {
    ++num_cut_;
    cut_(absl::StrCat("cut off ", address, ": ", why));
  }

  void CutGreediest() {
    for (const std::string& address : unfinished_.CutGreediest()) {
      Cut(address, "has sent the most of messages that do not end");
    }
  }

  uint64_t num_cut() const { return num_cut_; }
  UnfinishedMessages& unfinished() { return unfinished_; }

 private:
  static constexpr size_t kMaxAddresses = 10'000;

  const std::function<void(absl::string_view)> cut_;
  std::atomic<uint64_t> num_cut_{0};
  Mutex mutex_;
  absl::flat_hash_map<std::string, Allowance> allowances_
      ABSL_GUARDED_BY(mutex_);
  UnfinishedMessages unfinished_;
};

namespace {

// What is known of one connection. One thread at a time reads from it, and one
// writes to it.
class Watched {
 public:
  Watched(int fd, std::shared_ptr<ConnectionGuard::State> state)
      : state_(std::move(state)), connection_{fd, InodeOf(fd), AddressOf(fd)} {
    state_->unfinished().Add(&connection_);
  }
  ~Watched() { state_->unfinished().Remove(&connection_); }

  // Whether a descriptor of that number still means this connection.
  bool IsOpen() const { return InodeOf(connection_.fd) == connection_.inode; }

  // Returns false if the peer must be cut off.
  bool Admit(absl::string_view bytes) {
    if (connection_.is_cut) return false;
    const Http2Scanner::Seen seen = scanner_.Scan(bytes);
    if (seen.header_block_bytes > ConnectionGuard::kMaxHeaderBlockBytes) {
      return Cut("headers without end");
    }
    if (seen.num_resets == 0 || own_resets_.Take(seen.num_resets) ||
        state_->TakeResets(connection_.address, seen.num_resets)) {
      return true;
    }
    return Cut("resets calls without end");
  }
  void SeeReply(absl::string_view bytes) { scanner_.ScanReply(bytes); }

  // Counts what its messages take by now. Returns where connections have to be
  // cut off for that; null if nowhere.
  std::shared_ptr<ConnectionGuard::State> CountUnfinished() {
    if (connection_.is_cut) return nullptr;
    const bool is_too_much =
        state_->unfinished().Set(&connection_, scanner_.unfinished_bytes());
    return is_too_much ? state_ : nullptr;
  }

 private:
  bool Cut(absl::string_view why) {
    connection_.is_cut = true;
    state_->Cut(connection_.address, why);
    return false;
  }

  const std::shared_ptr<ConnectionGuard::State> state_;
  UnfinishedMessages::Connection connection_;
  Http2Scanner scanner_;
  Allowance own_resets_{ConnectionGuard::kMaxResetsOfConnection,
                        ConnectionGuard::kResetsPerSecondOfConnection, 0};
};

// By descriptor, each guarded by one of the mutexes. Only one thread at a time
// reads from a connection, so that they are rarely waited for.
constexpr int kMaxWatched = 1 << 20;
constexpr int kNumMutexes = 64;
Watched* watched[kMaxWatched];
Mutex mutexes[kNumMutexes];

// Hands the first `size` bytes of a message to `take`, until that returns
// false; returns what it has returned.
template <typename Take>
bool ForEachPart(const msghdr& message, size_t size, Take take) {
  for (size_t i = 0; i < message.msg_iovlen && size > 0; ++i) {
    const iovec& part = message.msg_iov[i];
    const size_t part_size = std::min(size, part.iov_len);
    if (!take({static_cast<const char*>(part.iov_base), part_size})) {
      return false;
    }
    size -= part_size;
  }
  return true;
}

// Applies `use` to what is known of the connection, if it is watched. What that
// returns has to cut connections off, but not under this one's mutex.
template <typename Use>
void WithWatched(int fd, Use use) {
  if (fd < 0 || fd >= kMaxWatched) return;
  std::shared_ptr<ConnectionGuard::State> overfull;
  {
    MutexLock lock(&mutexes[fd % kNumMutexes]);
    Watched* const connection = watched[fd];
    if (connection == nullptr || !connection->IsOpen()) return;
    use(*connection);
    overfull = connection->CountUnfinished();
  }
  if (overfull != nullptr) overfull->CutGreediest();
}

bool Admit(int fd, const msghdr& message, size_t size) {
  bool is_admitted = true;
  WithWatched(fd, [&](Watched& connection) {
    is_admitted =
        ForEachPart(message, size, [&connection](absl::string_view bytes) {
          return connection.Admit(bytes);
        });
  });
  return is_admitted;
}

void SeeReply(int fd, const msghdr& message, size_t size) {
  WithWatched(fd, [&](Watched& connection) {
    ForEachPart(message, size, [&connection](absl::string_view bytes) {
      connection.SeeReply(bytes);
      return true;
    });
  });
}

}  // namespace

ConnectionGuard::ConnectionGuard(uint64_t max_unfinished_bytes,
                                 std::function<void(absl::string_view)> cut)
    : state_(std::make_shared<State>(max_unfinished_bytes, std::move(cut))) {}

void ConnectionGuard::Watch(int fd) {
  if (fd >= kMaxWatched) return;
  auto* const connection = new Watched(fd, state_);
  MutexLock lock(&mutexes[fd % kNumMutexes]);
  // The former connection of that number is closed.
  delete std::exchange(watched[fd], connection);
}

uint64_t ConnectionGuard::num_cut() const { return state_->num_cut(); }

uint64_t ConnectionGuard::unfinished_bytes() const {
  return state_->unfinished().bytes();
}

}  // namespace tensorkv

// In front of the C library's: gRPC's library finds these first.
extern "C" ssize_t recvmsg(int fd, msghdr* message, int flags) {
  using Function = ssize_t (*)(int, msghdr*, int);
  static const auto next =
      reinterpret_cast<Function>(dlsym(RTLD_NEXT, "recvmsg"));
  const ssize_t size = next(fd, message, flags);
  if (size <= 0 || (flags & MSG_PEEK) != 0 ||
      tensorkv::Admit(fd, *message, static_cast<size_t>(size))) {
    return size;
  }
  errno = ECONNRESET;
  return -1;
}

extern "C" ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  using Function = ssize_t (*)(int, const msghdr*, int);
  static const auto next =
      reinterpret_cast<Function>(dlsym(RTLD_NEXT, "sendmsg"));
  const ssize_t size = next(fd, message, flags);
  if (size > 0) {
    tensorkv::SeeReply(fd, *message, static_cast<size_t>(size));
  }
  return size;
}
