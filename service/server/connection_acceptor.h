// Accepts the connections of a server.

#ifndef TENSORKV_SERVICE_SERVER_CONNECTION_ACCEPTOR_H_
#define TENSORKV_SERVICE_SERVER_CONNECTION_ACCEPTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/listening_sockets.h"
#include "base/mutex.h"
#include "base/wake_up.h"
#include "service/server/open_connections.h"

namespace tensorkv {

// Takes connections and hands them on, on a thread of its own, from creation to
// Stop. Beyond a number of open connections, and while the process has no
// descriptor left, it closes what comes at once, so that nobody waits for an
// answer, and goes on when it can again: gRPC's own acceptor never
// accepts again after it has met that limit once. Thread-safe.
class ConnectionAcceptor {
 public:
  struct Options {
    uint32_t max_connections = 0;
    // Returns why a connection below the limit is refused; OK if it is not.
    // Must not block. Null: none is refused.
    std::function<absl::Status(int fd)> admit;
    // Takes each other connection, and owns its descriptor `fd`, which
    // `listener` has accepted.
    std::function<void(int listener, int fd)> take;
    // Hears why a connection was refused. Must not block.
    std::function<void(absl::string_view reason)> refused;
  };

  // Starts. All functions of `options` are called on the acceptor's thread.
  ConnectionAcceptor(ListeningSockets sockets, Options options);
  ~ConnectionAcceptor() { Stop(); }

  // Accepts nothing any more, closes the listening sockets, and waits for the
  // thread. Connections that were accepted stay open.
  void Stop();

  // Has its thread call `done`, soon if the thread is not stuck; never after
  // Stop.
  void Probe(absl::AnyInvocable<void() &&> done);

  int port() const { return port_; }
  // Asks the system about each connection that is not known to have ended.
  uint64_t num_open() { return open_.Count(); }
  uint64_t num_accepted() const { return num_accepted_; }
  uint64_t num_refused() const { return num_refused_; }

 private:
  static constexpr int kMaxAcceptsPerWakeup = 256;

  void Run();
  void AnswerProbes() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns false if the listener must rest: nothing can be accepted now.
  bool AcceptSome(int listener);
  // Closes the reserved descriptor, accepts a connection in its place, closes
  // it too, and reserves a descriptor again. Returns false if any of it fails.
  bool RefuseWithoutDescriptor(int listener);
  // Counts and reports a refusal. The caller closes the connection.
  void Refuse(absl::string_view reason);

  const Options options_;
  const int port_;
  OpenConnections open_;
  std::atomic<uint64_t> num_accepted_{0};
  std::atomic<uint64_t> num_refused_{0};
  WakeUp wake_up_;

  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<absl::AnyInvocable<void() &&>> probes_ ABSL_GUARDED_BY(mutex_);

  // Only the thread uses these.
  ListeningSockets sockets_;
  FileDescriptor reserve_;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_CONNECTION_ACCEPTOR_H_
