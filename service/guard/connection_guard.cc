#include "service/guard/connection_guard.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/listening_sockets.h"
#include "base/mutex.h"
#include "service/guard/http2_scanner.h"
#include "service/guard/unfinished_messages.h"

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
  // Takes what is not there too, up to as much as there can be.
  void Charge(double count) {
    Refill();
    left_ = std::max(left_ - count, -size_);
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
  // All clients of a front come by its Unix socket: none pays for another.
  if (UserOf(fd)) return absl::StrCat("unix:", InodeOf(fd));
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size);
  char text[INET6_ADDRSTRLEN] = "unknown";
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
  State(const Limits& limits, std::function<void(absl::string_view)> cut)
      : max_streams_(limits.max_streams),
        cut_(std::move(cut)),
        unfinished_(limits.max_unfinished_bytes) {}

  // A client may have seen streams end, and opened others, before this has: so
  // twice as many are let through. And it may open about 100 before it hears of
  // the setting (RFC 9113, section 6.5.2).
  bool HasTooMany(size_t num_streams) const {
    constexpr size_t kUntilSettings = 100;
    return num_streams > max_streams_ + std::max(max_streams_, kUntilSettings);
  }

  bool TakeResets(const std::string& address, uint32_t count) {
    MutexLock lock(&mutex_);
    return AllowanceOf(address).Take(count);
  }

  // Ends of connections cost as much as resets of what was open on them, and
  // nobody can be refused them: who has none left may not come back at once.
  void ChargeResets(const std::string& address, double count) {
    if (count <= 0) return;
    MutexLock lock(&mutex_);
    AllowanceOf(address).Charge(count);
  }
  bool IsInDebt(const std::string& address) {
    MutexLock lock(&mutex_);
    return !AllowanceOf(address).Take(0);
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

  Allowance& AllowanceOf(const std::string& address)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (allowances_.size() >= kMaxAddresses) {
      absl::erase_if(allowances_,
                     [](auto& each) { return each.second.IsFull(); });
    }
    return allowances_
        .try_emplace(address, kMaxResets, kResetsPerSecond, kMaxResets)
        .first->second;
  }

  const size_t max_streams_;
  const std::function<void(absl::string_view)> cut_;
  std::atomic<uint64_t> num_cut_{0};
  Mutex mutex_;
  absl::flat_hash_map<std::string, Allowance> allowances_
      ABSL_GUARDED_BY(mutex_);
  UnfinishedMessages unfinished_;
};

namespace {

// Returns the C library's function of that name, or whose else comes next.
template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Watched holds what is known of one connection. One thread at a time reads
// from it, and one writes to it.
class Watched {
 public:
  Watched(int fd, std::shared_ptr<ConnectionGuard::State> state)
      : state_(std::move(state)), connection_{fd, InodeOf(fd), AddressOf(fd)} {
    state_->unfinished().Add(&connection_);
  }
  ~Watched() {
    state_->unfinished().Remove(&connection_);
    // Where gRPC itself has closed it, nobody says when: what its address would
    // have earned since the last read has paid for that much.
    const std::chrono::duration<double> age = Clock::now() - last_read_;
    End(age.count() * ConnectionGuard::kResetsPerSecond);
  }

  // Charges its address for streams that are open at the end, or for having had
  // no call, but for what is paid: now, as gRPC may still reset them itself.
  void End(double num_paid = 0) {
    Charge(scanner_.has_calls() ? 0 : ConnectionGuard::kResetsWithoutCall,
           num_paid);
  }

  // Returns whether a descriptor of that number still means this connection.
  bool IsOpen() const { return InodeOf(connection_.fd) == connection_.inode; }

  // Errors: ResourceExhausted (its address is in debt).
  absl::Status AdmitNew() {
    if (!state_->IsInDebt(connection_.address)) return absl::OkStatus();
    has_ended_ = true;  // or who tries again would be refused for ever
    return absl::ResourceExhaustedError(
        absl::StrCat(connection_.address, ": ", kIsBack));
  }
  // Returns false if the peer must be cut off for what was read.
  bool Admit(absl::string_view bytes) {
    if (connection_.is_cut) return false;
    if (std::exchange(is_new_, false) && !AdmitNew().ok()) return Cut(kIsBack);
    last_read_ = Clock::now();
    const Http2Scanner::Seen seen = scanner_.Scan(bytes);
    if (!seen.is_http2) return CutAndCharge("speaks no HTTP/2");
    if (seen.header_block_bytes > ConnectionGuard::kMaxHeaderBlockBytes) {
      return CutAndCharge("headers without end");
    }
    if (state_->HasTooMany(seen.num_open_streams)) {
      return CutAndCharge("more streams than it may open");
    }
    if (!acks_.Take(seen.num_acks_due) ||
        !idle_pings_.Take(seen.num_idle_pings)) {
      return CutAndCharge("pings or settings without end");
    }
    if (seen.num_resets == 0 || own_resets_.Take(seen.num_resets) ||
        state_->TakeResets(connection_.address, seen.num_resets)) {
      return true;
    }
    return CutAndCharge("resets calls without end");
  }
  void SeeReply(absl::string_view bytes) { scanner_.ScanReply(bytes); }

  // Counts what its messages take by now. Returns where connections have to be
  // cut off for that; null if nowhere.
  std::shared_ptr<ConnectionGuard::State> CountUnfinished() {
    if (connection_.is_cut) return nullptr;
    const bool is_too_much = state_->unfinished().SetBytes(
        &connection_, scanner_.unfinished_bytes());
    return is_too_much ? state_ : nullptr;
  }

 private:
  static constexpr absl::string_view kIsBack =
      "is back at once after what its connections did";

  // Once: `least`, or as much as there are open streams, if they are more.
  void Charge(double least, double num_paid) {
    if (std::exchange(has_ended_, true)) return;
    const auto num_open = static_cast<double>(scanner_.num_open_streams());
    state_->ChargeResets(connection_.address,
                         std::max(num_open, least) - num_paid);
  }
  bool Cut(absl::string_view why) {
    connection_.is_cut = true;
    End();
    state_->Cut(connection_.address, why);
    return false;
  }
  // Cuts the connection off and charges what it has sent: whoever is cut off
  // costs the next connection too.
  bool CutAndCharge(absl::string_view why) {
    Charge(ConnectionGuard::kResetsOfCut, /*num_paid=*/0);
    return Cut(why);
  }

  const std::shared_ptr<ConnectionGuard::State> state_;
  UnfinishedMessages::Connection connection_;
  Http2Scanner scanner_;
  bool is_new_ = true;
  bool has_ended_ = false;
  Clock::time_point last_read_ = Clock::now();
  Allowance acks_{ConnectionGuard::kMaxAcks, ConnectionGuard::kAcksPerSecond,
                  ConnectionGuard::kMaxAcks};
  Allowance idle_pings_{ConnectionGuard::kMaxIdlePings,
                        ConnectionGuard::kIdlePingsPerSecond,
                        ConnectionGuard::kMaxIdlePings};
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

bool Admit(int fd, msghdr* message, size_t size) {
  bool is_admitted = true;
  WithWatched(fd, [&](Watched& connection) {
    is_admitted =
        ForEachPart(*message, size, [&connection](absl::string_view bytes) {
          return connection.Admit(bytes);
        });
  });
  return is_admitted;
}

// Hears what a read without bytes has returned; leaves errno as it is.
void SeeNoBytes(int fd, ssize_t size) {
  const int error = errno;
  if (size < 0 && (error == EAGAIN || error == EINTR)) return;
  WithWatched(fd, [](Watched& connection) { connection.End(); });
  errno = error;
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

ConnectionGuard::ConnectionGuard(const Limits& limits,
                                 std::function<void(absl::string_view)> cut)
    : state_(std::make_shared<State>(limits, std::move(cut))) {}

absl::Status ConnectionGuard::Watch(int fd) {
  if (fd >= kMaxWatched) return absl::OkStatus();
  auto connection = std::make_unique<Watched>(fd, state_);
  absl::Status status = connection->AdmitNew();
  if (!status.ok()) connection = nullptr;
  MutexLock lock(&mutexes[fd % kNumMutexes]);
  // The former connection of that number is closed.
  delete std::exchange(watched[fd], connection.release());
  return status;
}

ConnectionFilter::Counts ConnectionGuard::counts() {
  return {.num_cut = state_->num_cut(),
          .unfinished_bytes = state_->unfinished().bytes()};
}

std::unique_ptr<ConnectionFilter> MakeConnectionGuard(
    const ConnectionFilter::Limits& limits,
    std::function<void(absl::string_view reason)> cut) {
  return std::make_unique<ConnectionGuard>(limits, std::move(cut));
}

}  // namespace tensorkv

// These stand in front of the C library's: gRPC's library finds them first.
extern "C" ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static const auto next = tensorkv::Next<decltype(recvmsg)>("recvmsg");
  if ((flags & (MSG_PEEK | MSG_ERRQUEUE)) != 0) return next(fd, message, flags);
  const ssize_t size = next(fd, message, flags);
  if (size <= 0) {
    tensorkv::SeeNoBytes(fd, size);
    return size;
  }
  if (tensorkv::Admit(fd, message, static_cast<size_t>(size))) return size;
  errno = ECONNRESET;
  return -1;
}

extern "C" ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static const auto next = tensorkv::Next<decltype(sendmsg)>("sendmsg");
  const ssize_t size = next(fd, message, flags);
  if (size > 0) {
    tensorkv::SeeReply(fd, *message, static_cast<size_t>(size));
  }
  return size;
}
