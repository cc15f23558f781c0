// The real etcd, as a child of the test.

#ifndef TENSORKV_TESTS_INTEGRATION_ETCD_PROCESS_H_
#define TENSORKV_TESTS_INTEGRATION_ETCD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "grpcpp/grpcpp.h"

namespace tensorkv::testing {

// PEM files by which an etcd server takes callers over TLS; empty paths: it
// takes them in plain text.
struct EtcdTls {
  // Its own certificate, and the key.
  std::string cert;
  std::string key;
  // The authority of that certificate.
  std::string ca;
  // True if callers need a certificate of that authority too.
  bool asks_for_certificates = false;
};

// One etcd server on ports of 127.0.0.1 that were free, with its data in the
// test's directory. Stopped with this object. Not thread-safe.
class EtcdProcess {
 public:
  // One that is a cluster by itself.
  explicit EtcdProcess(EtcdTls tls = {});
  // So many members of one cluster. Returns when all answer.
  static std::vector<std::unique_ptr<EtcdProcess>> StartMembers(int num);
  ~EtcdProcess() { Stop(); }
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;

  // With the data that it has had. Returns when it answers, which takes most of
  // the members of its cluster.
  void Start() {
    Launch();
    AwaitAnswer();
  }
  // Start in two parts.
  void Launch();
  void AwaitAnswer();
  // Kills it. Does nothing if it is stopped.
  void Stop();

  // Removes its data. REQUIRES: it is stopped.
  void LoseData();

  // Where it answers.
  const std::string& address() const { return address_; }
  // Returns a new channel to it, which shows its own certificate.
  std::shared_ptr<grpc::Channel> NewChannel() const;

 private:
  struct NotLaunched {};
  EtcdProcess(NotLaunched, EtcdTls tls);

  // As etcd is told of the members of its cluster.
  std::string Member() const;

  const EtcdTls tls_;
  const std::string directory_;
  const std::string address_;
  const std::string peer_address_;
  std::string members_ = Member();
  pid_t pid_ = -1;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_INTEGRATION_ETCD_PROCESS_H_
