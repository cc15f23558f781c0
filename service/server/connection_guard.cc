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
  explicit State(std::function<void(absl::string_view)> cut)
      : cut_(std::move(cut)) {}

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

  uint64_t num_cut() const { return num_cut_; }

 private:
  static constexpr size_t kMaxAddresses = 10'000;

  const std::function<void(absl::string_view)> cut_;
  std::atomic<uint64_t> num_cut_{0};
  Mutex mutex_;
  absl::flat_hash_map<std::string, Allowance> allowances_
      ABSL_GUARDED_BY(mutex_);
};

namespace {

// What is known of one connection. One thread at a time reads from it.
struct Watched {
  // Returns false if the peer must be cut off.
  bool Admit(absl::string_view bytes) {
    if (is_cut) return false;
    const Http2Scanner::Seen seen = scanner.Scan(bytes);
    if (seen.header_block_bytes > ConnectionGuard::kMaxHeaderBlockBytes) {
      return Cut("headers without end");
    }
    if (seen.num_resets == 0 || own_resets.Take(seen.num_resets) ||
        state->TakeResets(address, seen.num_resets)) {
      return true;
    }
    return Cut("resets calls without end");
  }
  bool Cut(absl::string_view why) {
    is_cut = true;
    state->Cut(address, why);
    return false;
  }

  const ino_t inode;
  const std::string address;
  const std::shared_ptr<ConnectionGuard::State> state;
  Http2Scanner scanner;
  Allowance own_resets{ConnectionGuard::kMaxResetsOfConnection,
                       ConnectionGuard::kResetsPerSecondOfConnection, 0};
  bool is_cut = false;
};

// By descriptor, each guarded by one of the mutexes. Only one thread at a time
// reads from a connection, so that they are rarely waited for.
constexpr int kMaxWatched = 1 << 20;
constexpr int kNumMutexes = 64;
Watched* watched[kMaxWatched];
Mutex mutexes[kNumMutexes];

bool Admit(int fd, const msghdr& message, size_t size) {
  if (fd < 0 || fd >= kMaxWatched) return true;
  MutexLock lock(&mutexes[fd % kNumMutexes]);
  Watched* const connection = watched[fd];
  if (connection == nullptr || connection->inode != InodeOf(fd)) return true;
  for (size_t i = 0; i < message.msg_iovlen && size > 0; ++i) {
    const iovec& part = message.msg_iov[i];
    const size_t part_size = std::min(size, part.iov_len);
    if (!connection->Admit(
            {static_cast<const char*>(part.iov_base), part_size})) {
      return false;
    }
    size -= part_size;
  }
  return true;
}

}  // namespace

ConnectionGuard::ConnectionGuard(std::function<void(absl::string_view)> cut)
    : state_(std::make_shared<State>(std::move(cut))) {}

void ConnectionGuard::Watch(int fd) {
  if (fd >= kMaxWatched) return;
  auto* const connection = new Watched{InodeOf(fd), AddressOf(fd), state_, {}};
  MutexLock lock(&mutexes[fd % kNumMutexes]);
  // The former connection of that number is closed.
  delete std::exchange(watched[fd], connection);
}

uint64_t ConnectionGuard::num_cut() const { return state_->num_cut(); }

}  // namespace tensorkv

// In front of the C library's: gRPC's library finds this one first.
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
