// A wire that is slow, or carries nothing for a while.

#ifndef TENSORKV_TESTS_INTEGRATION_LINK_PROXY_H_
#define TENSORKV_TESTS_INTEGRATION_LINK_PROXY_H_

#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace tensorkv::testing {

// Forwards connections on loopback to a port. Thread-safe.
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

 private:
  void Accept();
  void Forward(int client);
  // Waits while the link is held; returns false at the end of the proxy.
  bool AwaitTurn();

  int listener_ = -1;
  int listen_port_ = 0;
  Mutex mutex_;
  CondVar changed_;
  int port_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_held_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration delay_ ABSL_GUARDED_BY(mutex_);
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> forwarders_ ABSL_GUARDED_BY(mutex_);
  std::thread acceptor_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_INTEGRATION_LINK_PROXY_H_
