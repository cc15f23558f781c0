// The real etcd, as a child of the test.

#ifndef TENSORKV_TESTS_INTEGRATION_ETCD_PROCESS_H_
#define TENSORKV_TESTS_INTEGRATION_ETCD_PROCESS_H_

#include <sys/types.h>

#include <string>

namespace tensorkv::testing {

// One etcd server on ports of 127.0.0.1 that were free, with its data in the
// test's directory. Stopped with this object. Not thread-safe.
class EtcdProcess {
 public:
  EtcdProcess();
  ~EtcdProcess() { Stop(); }
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;

  // With the data that it has had; does not wait until it answers.
  void Start();
  // Kills it. Does nothing if it is stopped.
  void Stop();

  // Removes its data. REQUIRES: it is stopped.
  void LoseData();

  // Where it answers.
  const std::string& address() const { return address_; }

 private:
  const std::string directory_;
  const std::string address_;
  const std::string peer_address_;
  pid_t pid_ = -1;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_INTEGRATION_ETCD_PROCESS_H_
