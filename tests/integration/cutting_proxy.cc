#include "tests/integration/cutting_proxy.h"

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

// How often a connection that is idle looks whether all is to end.
constexpr int kPollMs = 50;

}  // namespace

CuttingProxy::CuttingProxy(int port, double mean_bytes, uint64_t seed)
    : port_(port), mean_bytes_(mean_bytes), random_(seed) {
  listener_ = ListenOnLoopback(&listen_port_);
  acceptor_ = std::thread([this] { Accept(); });
}

CuttingProxy::~CuttingProxy() {
  {
    MutexLock lock(&mutex_);
    ends_ = true;
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

std::string CuttingProxy::address() const {
  return absl::StrCat("127.0.0.1:", listen_port_);
}

int CuttingProxy::num_cuts() {
  MutexLock lock(&mutex_);
  return num_cuts_;
}

void CuttingProxy::StopCutting() {
  MutexLock lock(&mutex_);
  cuts_ = false;
}

void CuttingProxy::Accept() {
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

void CuttingProxy::Forward(int client) {
  const int server = ConnectToLoopback(port_);
  SendAtOnce(client);
  SendAtOnce(server);
  int64_t bytes_left = DrawLife();
  pollfd ends[2] = {{.fd = client, .events = POLLIN},
                    {.fd = server, .events = POLLIN}};
  bool is_open = server >= 0;
  while (is_open && bytes_left > 0) {
    poll(ends, 2, kPollMs);
    if (ends[0].revents != 0) is_open = Move(client, server, &bytes_left);
    if (is_open && bytes_left > 0 && ends[1].revents != 0) {
      is_open = Move(server, client, &bytes_left);
    }
    MutexLock lock(&mutex_);
    is_open &= !ends_;
  }
  CutSocket(client);
  if (server >= 0) CutSocket(server);
  MutexLock lock(&mutex_);
  num_cuts_ += bytes_left <= 0 ? 1 : 0;
}

bool CuttingProxy::Move(int from, int to, int64_t* bytes_left) {
  char data[16384];
  const ssize_t size = recv(from, data, sizeof(data), 0);
  if (size <= 0) return false;
  const int64_t sent = std::min<int64_t>(size, *bytes_left);
  *bytes_left -= size;
  return WriteAll(to, data, sent);
}

int64_t CuttingProxy::DrawLife() {
  MutexLock lock(&mutex_);
  if (!cuts_) return std::numeric_limits<int64_t>::max();
  return 1 + std::llround(
                 std::exponential_distribution<>(1 / mean_bytes_)(random_));
}

}  // namespace tensorkv::testing
