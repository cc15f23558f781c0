#include "bench/data_path/peers/servers.h"

#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "bench/data_path/sockets/socket.h"
#include "bench/harness/clocks.h"

namespace tensorkv::bench {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(20);
constexpr absl::Duration kConnectInterval = absl::Milliseconds(10);

// More than the values of any row take.
constexpr char kMemcachedMegabytes[] = "6144";

std::string PortOf(const std::string& address) {
  return address.substr(address.rfind(':') + 1);
}

// memcached asks root to say as whom it runs.
std::string UserName() {
  const passwd* user = getpwuid(geteuid());
  return user == nullptr ? "nobody" : user->pw_name;
}

// The address in "... ready listen=ADDRESS ...".
absl::StatusOr<std::string> ListenAddressIn(const std::string& line) {
  for (absl::string_view word : absl::StrSplit(line, ' ')) {
    if (absl::ConsumePrefix(&word, "listen=")) return std::string(word);
  }
  return absl::UnavailableError(
      absl::StrCat("expected listen=ADDRESS, got \"", line, "\""));
}

absl::Status AwaitConnection(ChildProcess* process,
                             const std::string& address) {
  const absl::Duration deadline = SteadyTime() + kStartTimeout;
  absl::Status status;
  while (!process->has_ended() && SteadyTime() < deadline) {
    status = ConnectTo(address).status();
    if (status.ok()) return status;
    absl::SleepFor(kConnectInterval);
  }
  return absl::UnavailableError(absl::StrCat(
      status.message(), "; the server's output:\n", process->Output()));
}

}  // namespace

absl::string_view NameOf(Transport transport) {
  return transport == Transport::kTcp ? "tcp" : "unix";
}

absl::StatusOr<std::unique_ptr<ServerLauncher>> ServerLauncher::Create(
    const LauncherOptions& options) {
  std::error_code error;
  std::string pattern =
      std::filesystem::temp_directory_path(error) / "tensorkv-bench-XXXXXX";
  if (error || mkdtemp(pattern.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a folder ", pattern, ": ", strerror(errno)));
  }
  return std::unique_ptr<ServerLauncher>(new ServerLauncher(options, pattern));
}

ServerLauncher::~ServerLauncher() {
  std::error_code ignored;  // What is left is an empty socket or two.
  std::filesystem::remove_all(directory_, ignored);
}

absl::StatusOr<ServerProcess> ServerLauncher::StartTensorkv(
    Transport transport, absl::string_view device) {
  return StartAndAwaitLog(
      {options_.tensorkv_server,
       absl::StrCat("--listen=", ListenAddress("tensorkv", transport)),
       "--metrics_listen=127.0.0.1:0", absl::StrCat("--device=", device)});
}

absl::StatusOr<TlsServerProcess> ServerLauncher::StartTensorkvWithTls() {
  const std::string key = directory_ + "/server.key";
  TlsServerProcess server = {.ca = directory_ + "/server.crt"};
  RETURN_IF_ERROR(MakeCertificate(key, server.ca));
  ASSIGN_OR_RETURN(
      server.process,
      StartAndAwaitLog({options_.tensorkv_server, "--listen=127.0.0.1:0",
                        "--metrics_listen=127.0.0.1:0",
                        absl::StrCat("--tls_cert=", server.ca),
                        absl::StrCat("--tls_key=", key)}));
  return server;
}

// It signs itself.
absl::Status ServerLauncher::MakeCertificate(
    const std::string& key, const std::string& certificate) const {
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ChildProcess> openssl,
      ChildProcess::Start(
          {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
           "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
           "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
           key, "-out", certificate},
          /*cpus=*/{}));
  const absl::Duration deadline = SteadyTime() + kStartTimeout;
  while (!openssl->has_ended() && SteadyTime() < deadline) {
    absl::SleepFor(kConnectInterval);
  }
  if (std::filesystem::exists(certificate)) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("no certificate; openssl says:\n", openssl->Output()));
}

absl::StatusOr<ServerProcess> ServerLauncher::StartReference(
    absl::string_view kind, Transport transport) {
  return StartAndAwaitLog({options_.reference_server, std::string(kind),
                           ListenAddress(kind, transport)});
}

absl::StatusOr<ServerProcess> ServerLauncher::StartRedis(Transport transport) {
  std::vector<std::string> arguments = {
      "redis-server", "--save",      "",        "--appendonly",
      "no",           "--daemonize", "no",      "--bind",
      "127.0.0.1",    "--dir",       directory_};
  if (transport == Transport::kUnix) {
    const std::string path = SocketPath("redis");
    arguments.insert(arguments.end(), {"--port", "0", "--unixsocket", path});
    return StartAndConnect(arguments, absl::StrCat("unix:", path));
  }
  ASSIGN_OR_RETURN(const std::string address, FreeLoopbackAddress());
  arguments.insert(arguments.end(), {"--port", PortOf(address)});
  return StartAndConnect(arguments, address);
}

absl::StatusOr<ServerProcess> ServerLauncher::StartMemcached(
    Transport transport) {
  std::vector<std::string> arguments = {
      "memcached", "-u", UserName(), "-m", kMemcachedMegabytes, "-I", "1024m",
      "-t",        "1",  "-U",       "0"};
  if (transport == Transport::kUnix) {
    const std::string path = SocketPath("memcached");
    arguments.insert(arguments.end(), {"-s", path});
    return StartAndConnect(arguments, absl::StrCat("unix:", path));
  }
  ASSIGN_OR_RETURN(const std::string address, FreeLoopbackAddress());
  arguments.insert(arguments.end(), {"-l", "127.0.0.1", "-p", PortOf(address)});
  return StartAndConnect(arguments, address);
}

std::string ServerLauncher::ListenAddress(absl::string_view name,
                                          Transport transport) const {
  if (transport == Transport::kTcp) return "127.0.0.1:0";
  return absl::StrCat("unix:", SocketPath(name));
}

absl::StatusOr<ServerProcess> ServerLauncher::StartAndAwaitLog(
    const std::vector<std::string>& arguments) const {
  ServerProcess server;
  ASSIGN_OR_RETURN(server.process,
                   ChildProcess::Start(arguments, options_.cpus));
  ASSIGN_OR_RETURN(const std::string line,
                   server.process->AwaitLine("ready listen=", kStartTimeout));
  ASSIGN_OR_RETURN(server.address, ListenAddressIn(line));
  return server;
}

absl::StatusOr<ServerProcess> ServerLauncher::StartAndConnect(
    const std::vector<std::string>& arguments,
    const std::string& address) const {
  ServerProcess server = {.address = address};
  ASSIGN_OR_RETURN(server.process,
                   ChildProcess::Start(arguments, options_.cpus));
  RETURN_IF_ERROR(AwaitConnection(server.process.get(), address));
  return server;
}

std::string ServerLauncher::SocketPath(absl::string_view name) const {
  return absl::StrCat(directory_, "/", name, ".socket");
}

}  // namespace tensorkv::bench
