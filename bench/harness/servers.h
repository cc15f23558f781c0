// The servers that are measured, as children of this process.

#ifndef TENSORKV_BENCH_HARNESS_SERVERS_H_
#define TENSORKV_BENCH_HARNESS_SERVERS_H_

#include <sys/types.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace tensorkv::bench {

using CpuList = std::vector<int>;

// Binds the calling thread, and those that it starts from then on.
// Errors: InvalidArgument if there is none of these CPUs.
absl::Status BindTo(const CpuList& cpus);

// Returns a connection to 127.0.0.1:PORT without Nagle's delay, on which
// receiving ends with an error after half a minute of silence.
// Errors: Unavailable.
absl::StatusOr<FileDescriptor> ConnectTo(const std::string& address);

struct ServerProcess {
  std::string address;  // 127.0.0.1:PORT
  pid_t pid = 0;
};

// Starts servers on loopback at free ports, each when it is first asked for.
// They are killed with this object, or with the thread that asked. Not
// thread-safe.
class Servers {
 public:
  struct Options {
    std::string tensorkv_server;   // path of the program
    std::string reference_server;  // path of the program
    CpuList cpus;                  // of every server; empty: any
  };

  explicit Servers(Options options);
  ~Servers();
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  // Returns the server of that name: "raw", "naive", "redis", "memcached", or
  // "tensorkv" with flags that others lack, such as "tensorkv --device=cuda:0";
  // where there are several with the same, "tensorkv #2". Errors: NotFound if
  // the program is not installed; Unavailable, with its output, if it does not
  // start.
  absl::StatusOr<ServerProcess> Get(const std::string& name);

  // Ends a server, which the next Get starts anew.
  void Stop(const std::string& name);

  // Returns the name of a server with TLS, after making its certificate, which
  // signs itself.
  // Errors: Unavailable if there is no openssl to make one.
  absl::StatusOr<std::string> WithTls();
  // Returns a folder that goes with this object; on the disk of TMPDIR.
  const std::string& directory() const { return directory_; }
  std::string tls_ca() const { return directory_ + "/server.crt"; }

 private:
  using Arguments = std::vector<std::string>;

  Arguments ArgumentsOf(const std::string& name, const std::string& port) const;
  absl::StatusOr<ServerProcess> Start(const std::string& name);

  const Options options_;
  std::string directory_;  // of files that servers need and write
  std::map<std::string, absl::StatusOr<ServerProcess>> started_;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_SERVERS_H_
