#include "bench/harness/servers.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "bench/harness/clocks.h"

namespace tensorkv::bench {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(20);
constexpr absl::Duration kPollInterval = absl::Milliseconds(10);
constexpr int kNoSuchProgram = 127;
constexpr time_t kSilenceSeconds = 30;
constexpr char kReady[] = "ready listen=";

sockaddr_in LoopbackAddress(int port) {
  return {.sin_family = AF_INET,
          .sin_port = htons(static_cast<uint16_t>(port)),
          .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

cpu_set_t SetOf(const CpuList& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  return set;
}

// Returns a port that nobody listens on at the moment, for servers that cannot
// choose.
std::string FreePort() {
  const FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = LoopbackAddress(0);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), generic, size) != 0) return "0";
  getsockname(listener.get(), generic, &size);
  return absl::StrCat(ntohs(address.sin_port));
}

// memcached asks root to say as whom it runs.
std::string UserName() {
  const passwd* user = getpwuid(geteuid());
  return user == nullptr ? "nobody" : user->pw_name;
}

std::string ContentOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Starts arguments[0], looked up in the PATH unless it has a slash, which
// writes to the file `output`.
pid_t Spawn(const std::vector<std::string>& arguments, const CpuList& cpus,
            const std::string& output) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const cpu_set_t set = SetOf(cpus);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  if (!cpus.empty()) sched_setaffinity(0, sizeof(set), &set);
  const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  execvp(argv[0], argv.data());
  _exit(kNoSuchProgram);
}

// Returns the rest of the word after "ready listen=", or nothing.
std::string LoggedAddress(const std::string& output) {
  const size_t at = output.find(kReady);
  const size_t end = output.find_first_of(" \n", at + sizeof(kReady));
  if (at == std::string::npos || end == std::string::npos) return "";
  const size_t begin = at + sizeof(kReady) - 1;
  return output.substr(begin, end - begin);
}

}  // namespace

absl::Status BindTo(const CpuList& cpus) {
  const cpu_set_t set = SetOf(cpus);
  if (sched_setaffinity(0, sizeof(set), &set) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError("expected CPUs that the machine has");
}

absl::StatusOr<FileDescriptor> ConnectTo(const std::string& address) {
  const std::vector<std::string> parts = absl::StrSplit(address, ':');
  int port = 0;
  FileDescriptor connection(
      socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, /*protocol=*/0));
  if (!absl::SimpleAtoi(parts.back(), &port)) port = 0;
  const sockaddr_in peer = LoopbackAddress(port);
  if (connect(connection.get(), reinterpret_cast<const sockaddr*>(&peer),
              sizeof(peer)) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot connect to ", address, ": ", strerror(errno)));
  }
  const int on = 1;
  setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const timeval silence = {.tv_sec = kSilenceSeconds};
  setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &silence,
             sizeof(silence));
  return connection;
}

Servers::Servers(Options options) : options_(std::move(options)) {
  std::string pattern =
      std::filesystem::temp_directory_path() / "tensorkv-bench-XXXXXX";
  if (mkdtemp(pattern.data()) != nullptr) directory_ = pattern;
}

Servers::~Servers() {
  while (!started_.empty()) Stop(started_.begin()->first);
  std::error_code ignored;  // What is left are logs.
  std::filesystem::remove_all(directory_, ignored);
}

absl::StatusOr<ServerProcess> Servers::Get(const std::string& name) {
  const auto found = started_.find(name);
  if (found != started_.end()) return found->second;
  return started_.emplace(name, Start(name)).first->second;
}

void Servers::Stop(const std::string& name) {
  const auto found = started_.find(name);
  if (found == started_.end()) return;
  if (found->second.ok()) {
    kill(found->second->pid, SIGKILL);
    waitpid(found->second->pid, nullptr, 0);
  }
  started_.erase(found);
}

Servers::Arguments Servers::ArgumentsOf(const std::string& name,
                                        const std::string& port) const {
  if (name == "redis") {
    return {"redis-server", "--save", "",          "--appendonly",
            "no",           "--bind", "127.0.0.1", "--dir",
            directory_,     "--port", port};
  }
  if (name == "memcached") {
    // More megabytes than the values of any row take.
    return {"memcached", "-u",    UserName(),  "-m", "6144",
            "-I",        "1024m", "-t",        "1",  "-U",
            "0",         "-l",    "127.0.0.1", "-p", port};
  }
  if (!absl::StartsWith(name, "tensorkv")) {
    return {options_.reference_server, name, "127.0.0.1:0"};
  }
  Arguments arguments = {options_.tensorkv_server, "--listen=127.0.0.1:0",
                         "--metrics_listen=127.0.0.1:0"};
  for (const absl::string_view word : absl::StrSplit(name, ' ')) {
    if (absl::StartsWith(word, "--")) arguments.emplace_back(word);
  }
  return arguments;
}

// It signs itself.
absl::StatusOr<std::string> Servers::WithTls() {
  const std::string key = directory_ + "/server.key";
  const std::string name =
      absl::StrCat("tensorkv --tls_cert=", tls_ca(), " --tls_key=", key);
  if (started_.count(name) > 0) return name;
  const std::string output = directory_ + "/openssl.log";
  const pid_t openssl =
      Spawn({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
             "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
             key, "-out", tls_ca()},
            /*cpus=*/{}, output);
  int status = 0;
  if (waitpid(openssl, &status, 0) == openssl && status == 0) return name;
  return absl::UnavailableError(
      absl::StrCat("no certificate; openssl says: ", ContentOf(output)));
}

absl::StatusOr<ServerProcess> Servers::Start(const std::string& name) {
  const std::string port = FreePort();
  const bool is_ours = name != "redis" && name != "memcached";
  const Arguments arguments = ArgumentsOf(name, port);
  // A log of its own: what another server had written would tell its address.
  static int num_logs = 0;
  const std::string output = absl::StrCat(directory_, "/", ++num_logs, ".log");
  const pid_t pid = Spawn(arguments, options_.cpus, output);
  const absl::Duration deadline = SteadyTime() + kStartTimeout;
  int status = 0;
  bool has_ended = false;
  while (SteadyTime() < deadline && !has_ended) {
    const std::string address = is_ours ? LoggedAddress(ContentOf(output))
                                        : absl::StrCat("127.0.0.1:", port);
    if (!address.empty() && (is_ours || ConnectTo(address).ok())) {
      return ServerProcess{.address = address, .pid = pid};
    }
    absl::SleepFor(kPollInterval);
    has_ended = waitpid(pid, &status, WNOHANG) != 0;
  }
  if (!has_ended) {
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoSuchProgram) {
    return absl::NotFoundError(
        absl::StrCat("cannot start ", arguments[0], ": not installed"));
  }
  return absl::UnavailableError(
      absl::StrCat(name, " did not start; its output: ", ContentOf(output)));
}

}  // namespace tensorkv::bench
