#include "bench/harness/child_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tensorkv::bench {
namespace {

// Enough to find the line that says that it is ready, or why it is not.
constexpr size_t kMaxOutputBytes = 64 << 10;

// The ends of pipes that a child writes to.
struct ChildPipes {
  int output;
  // Closed by exec, or tells why there was none.
  int error;
};

// Runs in the child, between fork and exec: system calls only.
[[noreturn]] void Become(char* const* arguments, const ChildPipes& pipes,
                         const cpu_set_t* cpus) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (cpus != nullptr) sched_setaffinity(0, sizeof(*cpus), cpus);
  dup2(pipes.output, STDOUT_FILENO);
  dup2(pipes.output, STDERR_FILENO);
  execvp(arguments[0], arguments);
  const int error = errno;
  const ssize_t written = write(pipes.error, &error, sizeof(error));
  _exit(written == sizeof(error) ? 1 : 2);
}

void Await(pid_t child) {
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::Status StartError(const std::string& program, int error) {
  const std::string message =
      absl::StrCat("cannot start ", program, ": ", strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  return absl::InternalError(message);
}

cpu_set_t MakeSet(const CpuList& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  return set;
}

// Returns the child once it is `program`, or -1 with `error`.
pid_t ForkAndExecute(const std::vector<std::string>& arguments,
                     const CpuList& cpus, int output_fd, int* error) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const cpu_set_t set = MakeSet(cpus);
  int error_pipe[2];
  *error = pipe2(error_pipe, O_CLOEXEC) == 0 ? 0 : errno;
  if (*error != 0) return -1;
  pid_t pid = fork();
  if (pid == 0) {
    Become(argv.data(), {.output = output_fd, .error = error_pipe[1]},
           cpus.empty() ? nullptr : &set);
  }
  if (pid < 0) *error = errno;
  close(error_pipe[1]);
  if (pid > 0 && read(error_pipe[0], error, sizeof(*error)) > 0) {
    Await(pid);
    pid = -1;
  }
  close(error_pipe[0]);
  return pid;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::vector<std::string>& arguments, const CpuList& cpus) {
  const std::string& program = arguments.front();
  int output_pipe[2];
  if (pipe2(output_pipe, O_CLOEXEC) != 0) return StartError(program, errno);
  int error = 0;
  const pid_t pid = ForkAndExecute(arguments, cpus, output_pipe[1], &error);
  close(output_pipe[1]);
  if (pid < 0) {
    close(output_pipe[0]);
    return StartError(program, error);
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, output_pipe[0]));
}

ChildProcess::ChildProcess(pid_t pid, int output_fd)
    : pid_(pid), output_fd_(output_fd), reader_([this] { ReadOutput(); }) {}

ChildProcess::~ChildProcess() {
  kill(pid_, SIGKILL);
  Await(pid_);
  reader_.join();
  close(output_fd_);
}

absl::StatusOr<std::string> ChildProcess::AwaitLine(absl::string_view text,
                                                    absl::Duration timeout) {
  MutexLock lock(&mutex_);
  bool is_late = false;
  while (true) {
    std::vector<std::string> lines = absl::StrSplit(output_, '\n');
    // What follows the last newline is not complete.
    lines.pop_back();
    for (const std::string& line : lines) {
      if (absl::StrContains(line, text)) return line;
    }
    if (has_ended_ || is_late) break;
    is_late = changed_.WaitWithTimeout(&mutex_, timeout);
  }
  const std::string message =
      absl::StrCat("expected a line with \"", text, "\", got:\n", output_);
  if (has_ended_) return absl::UnavailableError(message);
  return absl::DeadlineExceededError(message);
}

std::string ChildProcess::Output() {
  MutexLock lock(&mutex_);
  return output_;
}

bool ChildProcess::has_ended() {
  MutexLock lock(&mutex_);
  return has_ended_;
}

void ChildProcess::ReadOutput() {
  char buffer[4096];
  ssize_t size = 0;
  while (true) {
    size = read(output_fd_, buffer, sizeof(buffer));
    if (size < 0 && errno == EINTR) continue;
    MutexLock lock(&mutex_);
    changed_.SignalAll();
    if (size <= 0) {
      has_ended_ = true;
      return;
    }
    if (output_.size() < kMaxOutputBytes) output_.append(buffer, size);
  }
}

}  // namespace tensorkv::bench
