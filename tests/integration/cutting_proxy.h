// A wire that breaks.

#ifndef TENSORKV_TESTS_INTEGRATION_CUTTING_PROXY_H_
#define TENSORKV_TESTS_INTEGRATION_CUTTING_PROXY_H_

#include <sys/types.h>

#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace tensorkv::testing {

// Forwards connections on loopback to a port, bytes as they come, and cuts
// each after a random number of bytes, both ways at once: before, within and
// after messages, whatever they mean. Thread-safe.
class CuttingProxy {
 public:
  // A connection lives for `mean_bytes` on average.
  CuttingProxy(int port, double mean_bytes, uint64_t seed);
  ~CuttingProxy();

  std::string address() const;
  int num_cuts();
  // Forwards from now on without cutting.
  void StopCutting();

 private:
  void Accept();
  void Forward(int client);
  // Moves what has come; false at the end.
  static bool Move(int from, int to, int64_t* bytes_left);
  int64_t DrawLife();

  const int port_;
  const double mean_bytes_;
  int listener_ = -1;
  int listen_port_ = 0;
  Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  bool cuts_ ABSL_GUARDED_BY(mutex_) = true;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  int num_cuts_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> forwarders_ ABSL_GUARDED_BY(mutex_);
  std::thread acceptor_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_INTEGRATION_CUTTING_PROXY_H_
