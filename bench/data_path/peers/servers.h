// The servers that are measured, as children of this process.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_SERVERS_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_SERVERS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/harness/affinity.h"
#include "bench/harness/child_process.h"

namespace tensorkv::bench {

enum class Transport { kTcp, kUnix };

// "tcp", "unix".
absl::string_view NameOf(Transport transport);

// A child that takes connections at `address`, "127.0.0.1:PORT" or
// "unix:/path".
struct ServerProcess {
  std::unique_ptr<ChildProcess> process;
  std::string address;

  pid_t pid() const { return process->pid(); }
};

// One that encrypts, with a certificate of its own for 127.0.0.1.
struct TlsServerProcess {
  ServerProcess process;
  std::string ca;  // file of who has signed it, as clients are to be told
};

struct LauncherOptions {
  std::string tensorkv_server;   // path of the program
  std::string reference_server;  // path of the program
  CpuList cpus;                  // of every server; empty: any
};

// Starts servers on loopback, at ports that are free or at Unix sockets in a
// folder of its own, and returns when they answer. They are killed when their
// ServerProcess goes, before the launcher. Not thread-safe.
//
// Errors: NotFound if the program is not installed; Unavailable, with its
// output, if it does not start.
class ServerLauncher {
 public:
  // Errors: Unavailable if no folder can be made.
  static absl::StatusOr<std::unique_ptr<ServerLauncher>> Create(
      const LauncherOptions& options);
  ~ServerLauncher();
  ServerLauncher(const ServerLauncher&) = delete;
  ServerLauncher& operator=(const ServerLauncher&) = delete;

  // `device` as for the flag of tensorkv-server.
  absl::StatusOr<ServerProcess> StartTensorkv(Transport transport,
                                              absl::string_view device = "cpu");
  // Over TCP. Makes the certificate with the program openssl.
  absl::StatusOr<TlsServerProcess> StartTensorkvWithTls();
  // `kind` is "raw" or "naive".
  absl::StatusOr<ServerProcess> StartReference(absl::string_view kind,
                                               Transport transport);
  // Without persistence.
  absl::StatusOr<ServerProcess> StartRedis(Transport transport);
  // For values up to 1 GiB, with one thread.
  absl::StatusOr<ServerProcess> StartMemcached(Transport transport);

 private:
  ServerLauncher(LauncherOptions options, std::string directory)
      : options_(std::move(options)), directory_(std::move(directory)) {}

  // What a server of ours is told to listen on.
  std::string ListenAddress(absl::string_view name, Transport transport) const;
  // Makes the files `key` and `certificate`.
  absl::Status MakeCertificate(const std::string& key,
                               const std::string& certificate) const;
  // Starts a program that logs "ready listen=ADDRESS".
  absl::StatusOr<ServerProcess> StartAndAwaitLog(
      const std::vector<std::string>& arguments) const;
  // Starts a program that is ready when `address` takes connections.
  absl::StatusOr<ServerProcess> StartAndConnect(
      const std::vector<std::string>& arguments,
      const std::string& address) const;
  std::string SocketPath(absl::string_view name) const;

  const LauncherOptions options_;
  const std::string directory_;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_SERVERS_H_
