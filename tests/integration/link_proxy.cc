#include "tests/integration/link_proxy.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/integration/loopback.h"

namespace tensorkv::testing {
namespace {

// How often a connection that is idle looks whether the link is held.
constexpr int kPollMs = 20;

// Moves what has come, up to the end of the connection's life; false at its
// end.
bool Move(int from, int to, int64_t& bytes_left) {
  char data[16384];
  const ssize_t size = recv(from, data, sizeof(data), 0);
  if (size <= 0) return false;
  const int64_t sent = std::min<int64_t>(size, bytes_left);
  bytes_left -= sent;
  return WriteAll(to, data, sent) && bytes_left > 0;
}

}  // namespace

LinkProxy::LinkProxy() {
  listener_ = ListenOnLoopback(&listen_port_);
  acceptor_ = std::thread([this] { Accept(); });
}

LinkProxy::~LinkProxy() {
  {
    MutexLock lock(&mutex_);
    ends_ = true;
    changed_.SignalAll();
  }
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  close(listener_);
  std::vector<std::thread> forwarders;
  {
    MutexLock lock(&mutex_);
    forwarders.swap(forwarders_);
  }
  for (std::thread& forwarder : forwarders) forwarder.join();
}

std::string LinkProxy::address() const {
  return absl::StrCat("127.0.0.1:", listen_port_);
}

void LinkProxy::ForwardTo(int port) {
  MutexLock lock(&mutex_);
  port_ = port;
}

void LinkProxy::Hold() {
  MutexLock lock(&mutex_);
  is_held_ = true;
}

void LinkProxy::Release() {
  MutexLock lock(&mutex_);
  is_held_ = false;
  changed_.SignalAll();
}

void LinkProxy::SetDelay(absl::Duration delay) {
  MutexLock lock(&mutex_);
  delay_ = delay;
}

void LinkProxy::CutConnections(double mean_bytes, uint64_t seed) {
  MutexLock lock(&mutex_);
  mean_bytes_ = mean_bytes;
  random_.seed(seed);
}

void LinkProxy::CutAll() {
  MutexLock lock(&mutex_);
  ++num_cuts_of_all_;
}

int LinkProxy::num_cuts() const {
  MutexLock lock(&mutex_);
  return num_cuts_;
}

bool LinkProxy::LivesOn(int num_cuts_of_all) const {
  MutexLock lock(&mutex_);
  return !ends_ && num_cuts_of_all == num_cuts_of_all_;
}

int64_t LinkProxy::DrawLife() {
  if (mean_bytes_ == 0) return std::numeric_limits<int64_t>::max();
  return 1 + std::llround(
                 std::exponential_distribution<>(1 / mean_bytes_)(random_));
}

bool LinkProxy::AwaitTurn() {
  MutexLock lock(&mutex_);
  while (is_held_ && !ends_) changed_.Wait(&mutex_);
  if (!ends_ && delay_ > absl::ZeroDuration()) {
    changed_.WaitWithTimeout(&mutex_, delay_);
  }
  return !ends_;
}

void LinkProxy::Accept() {
  for (;;) {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    MutexLock lock(&mutex_);
    if (client < 0 || ends_) {
      if (client >= 0) close(client);
      return;
    }
    forwarders_.emplace_back([this, client] { Forward(client); });
  }
}

void LinkProxy::Forward(int client) {
  bool is_open = AwaitTurn();
  int port = 0;
  int64_t life_bytes = 0;
  int num_cuts_of_all = 0;
  {
    MutexLock lock(&mutex_);
    port = port_;
    life_bytes = DrawLife();
    num_cuts_of_all = num_cuts_of_all_;
  }
  const int server = ConnectToLoopback(port);
  is_open &= server >= 0;
  if (is_open) {
    life_bytes = MoveAll(client, server, life_bytes, num_cuts_of_all);
  }
  CutSocket(client);
  if (server >= 0) CutSocket(server);
  MutexLock lock(&mutex_);
  num_cuts_ += life_bytes == 0 ? 1 : 0;
}

int64_t LinkProxy::MoveAll(int client, int server, int64_t life_bytes,
                           int num_cuts_of_all) {
  SendAtOnce(client);
  SendAtOnce(server);
  pollfd sockets[2] = {{.fd = client, .events = POLLIN},
                       {.fd = server, .events = POLLIN}};
  bool is_open = true;
  while (is_open) {
    if (poll(sockets, 2, kPollMs) > 0) is_open = AwaitTurn();
    if (is_open && sockets[0].revents != 0) {
      is_open = Move(client, server, life_bytes);
    }
    if (is_open && sockets[1].revents != 0) {
      is_open = Move(server, client, life_bytes);
    }
    is_open &= LivesOn(num_cuts_of_all);
  }
  return life_bytes;
}

}  // namespace tensorkv::testing
