#include "service/server/connection_acceptor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace tensorkv {
namespace {

// Says how long a listener rests that cannot even refuse.
constexpr int kRestMs = 50;

FileDescriptor OpenReserve() {
  return FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

}  // namespace

ConnectionAcceptor::ConnectionAcceptor(ListeningSockets sockets,
                                       Options options)
    : options_(std::move(options)),
      port_(sockets.port()),
      sockets_(std::move(sockets)),
      reserve_(OpenReserve()),
      thread_([this] { Run(); }) {}

void ConnectionAcceptor::Stop() {
  {
    MutexLock lock(&mutex_);
    if (std::exchange(stopping_, true)) return;
  }
  wake_up_.Set();
  thread_.join();
  const ListeningSockets closed = std::move(sockets_);
}

void ConnectionAcceptor::Probe(absl::AnyInvocable<void() &&> done) {
  {
    MutexLock lock(&mutex_);
    probes_.push_back(std::move(done));
  }
  wake_up_.Set();
}

void ConnectionAcceptor::AnswerProbes() {
  wake_up_.Clear();
  std::vector<absl::AnyInvocable<void() &&>> probes;
  {
    MutexLock lock(&mutex_);
    probes.swap(probes_);
  }
  for (auto& probe : probes) std::move(probe)();
}

void ConnectionAcceptor::Run() {
  std::vector<pollfd> polled = {{wake_up_.fd(), POLLIN, 0}};
  for (const int fd : sockets_.fds()) polled.push_back({fd, POLLIN, 0});
  bool must_rest = false;
  while (true) {
    poll(polled.data(), must_rest ? 1 : polled.size(),
         must_rest ? kRestMs : -1);
    AnswerProbes();
    {
      MutexLock lock(&mutex_);
      if (stopping_) return;
    }
    must_rest = false;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (!AcceptSome(polled[i].fd)) must_rest = true;
    }
  }
}

// Accepts some of the connections; the rest is there at the next wake-up: peers
// that connect without end must not keep the thread from probes and from its
// end.
bool ConnectionAcceptor::AcceptSome(int listener) {
  for (int i = 0; i < kMaxAcceptsPerWakeup; ++i) {
    FileDescriptor fd(AcceptFrom(listener));
    if (!fd.is_open()) {
      if (errno == EAGAIN) return true;
      // A peer that is gone again says nothing about the next one.
      if (errno == ECONNABORTED || errno == EINTR) continue;
      if (errno != EMFILE && errno != ENFILE) return false;
      if (!RefuseWithoutDescriptor(listener)) return false;
      continue;
    }
    if (!open_.HasHeadroom(fd.get(), options_.max_connections)) {
      Refuse("too many connections");
      continue;
    }
    const absl::Status admitted =
        options_.admit ? options_.admit(fd.get()) : absl::OkStatus();
    if (!admitted.ok()) {
      Refuse(admitted.message());
      continue;
    }
    // Fails for Unix sockets, which need it not.
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    ++num_accepted_;
    open_.Add(fd.get());
    options_.take(listener, fd.Release());
  }
  return true;
}

bool ConnectionAcceptor::RefuseWithoutDescriptor(int listener) {
  reserve_.Reset();
  FileDescriptor refused(AcceptFrom(listener));
  const bool is_refused = refused.is_open();
  if (is_refused) Refuse("no descriptor left");  // before the peer hears of it
  refused.Reset();
  reserve_ = OpenReserve();
  return is_refused && reserve_.is_open();
}

void ConnectionAcceptor::Refuse(absl::string_view reason) {
  ++num_refused_;
  options_.refused(reason);
}

}  // namespace tensorkv
