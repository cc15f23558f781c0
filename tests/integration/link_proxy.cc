#include "tests/integration/link_proxy.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/integration/loopback.h"

namespace tensorkv::testing {
namespace {

// How often a connection that is idle looks whether the link is held.
constexpr int kPollMs = 20;

// Moves what has come; false at the end.
bool Move(int from, int to) {
  char data[16384];
  const ssize_t size = recv(from, data, sizeof(data), 0);
  return size > 0 && WriteAll(to, data, size);
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
  {
    MutexLock lock(&mutex_);
    port = port_;
  }
  const int server = ConnectToLoopback(port);
  is_open &= server >= 0;
  SendAtOnce(client);
  SendAtOnce(server);
  pollfd ends[2] = {{.fd = client, .events = POLLIN},
                    {.fd = server, .events = POLLIN}};
  while (is_open) {
    if (poll(ends, 2, kPollMs) > 0) is_open = AwaitTurn();
    if (is_open && ends[0].revents != 0) is_open = Move(client, server);
    if (is_open && ends[1].revents != 0) is_open = Move(server, client);
    MutexLock lock(&mutex_);
    is_open &= !ends_;
  }
  CutSocket(client);
  if (server >= 0) CutSocket(server);
}

}  // namespace tensorkv::testing
