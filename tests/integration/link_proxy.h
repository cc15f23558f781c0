// A wire that is slow, carries nothing for a while, or breaks.

#ifndef TENSORKV_TESTS_INTEGRATION_LINK_PROXY_H_
#define TENSORKV_TESTS_INTEGRATION_LINK_PROXY_H_

#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace tensorkv::testing {

// Forwards connections on loopback to a port, bytes as they come. Thread-safe.
class LinkProxy {
 public:
  LinkProxy();
  ~LinkProxy();

  std::string address() const;
  // Where new connections go from now on.
  void ForwardTo(int port);

  // Nothing passes, either way, until Release; what comes does then.
  void Hold();
  void Release();
  // Each piece of up to 16 KiB waits so long.
  void SetDelay(absl::Duration delay);
  // Each connection from now on is cut after a random number of bytes,
  // `mean_bytes` on average, both ways at once: before, within and after
  // messages, whatever they mean. 0 ends that.
  void CutConnections(double mean_bytes, uint64_t seed);
  // Ends all connections that there are.
  void CutAll();
  int num_cuts() const;

 private:
  void Accept();
  void Forward(int client);
  // Moves what passes between two sockets, until one ends or so many bytes
  // have passed. Returns how many were left then.
  int64_t MoveAll(int client, int server, int64_t life_bytes,
                  int num_cuts_of_all);
  // Waits while the link is held; returns false at the end of the proxy.
  bool AwaitTurn();
  // Whether a connection that has begun after so many CutAll is to go on.
  bool LivesOn(int num_cuts_of_all) const;
  int64_t DrawLife() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  int listener_ = -1;
  int listen_port_ = 0;
  mutable Mutex mutex_;
  CondVar changed_;
  int port_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_held_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration delay_ ABSL_GUARDED_BY(mutex_);
  // Of a connection's life; 0: none is cut.
  double mean_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  int num_cuts_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_cuts_of_all_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> forwarders_ ABSL_GUARDED_BY(mutex_);
  std::thread acceptor_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_INTEGRATION_LINK_PROXY_H_
