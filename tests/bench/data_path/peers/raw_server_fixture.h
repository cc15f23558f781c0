// A raw server in the process of a test.

#ifndef TENSORKV_TESTS_BENCH_DATA_PATH_PEERS_RAW_SERVER_FIXTURE_H_
#define TENSORKV_TESTS_BENCH_DATA_PATH_PEERS_RAW_SERVER_FIXTURE_H_

#include <sys/socket.h>

#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/file_descriptor.h"
#include "bench/data_path/peers/raw_server.h"
#include "bench/data_path/sockets/socket.h"

namespace tensorkv::testing {

// Serves until destruction, which waits for the connections' ends: clients go
// first.
class RawServerFixture {
 public:
  RawServerFixture()
      : listener_(bench::ListenOn("127.0.0.1:0").value()),
        address_(bench::AddressOf(listener_.get()).value()),
        thread_([this] { bench::ServeRaw(listener_.get()).IgnoreError(); }) {}
  ~RawServerFixture() {
    shutdown(listener_.get(), SHUT_RDWR);  // The next accept fails.
    thread_.join();
  }

  const std::string& address() const { return address_; }

 private:
  const FileDescriptor listener_;
  const std::string address_;
  std::thread thread_;  // last: it uses the listener
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_BENCH_DATA_PATH_PEERS_RAW_SERVER_FIXTURE_H_
