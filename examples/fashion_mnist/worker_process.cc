#include "examples/fashion_mnist/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

extern char** environ;

namespace tensorkv::fashion_mnist {
namespace {

absl::Status StartError(const std::string& executable, int error) {
  return absl::UnavailableError(
      absl::StrCat("cannot start ", executable, ": ", strerror(error)));
}

// Returns 0 or an errno.
int Spawn(const std::string& executable,
          const std::vector<std::string>& arguments, int report_fd,
          pid_t* pid) {
  std::vector<char*> argv = {const_cast<char*>(executable.c_str())};
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, report_fd,
                                   WorkerProcess::kReportFd);
  const int error = posix_spawn(pid, executable.c_str(), &actions, nullptr,
                                argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(
    const std::string& executable, const std::vector<std::string>& arguments) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return StartError(executable, errno);
  pid_t pid = 0;
  const int error = Spawn(executable, arguments, pipe_fds[1], &pid);
  close(pipe_fds[1]);
  if (error != 0) {
    close(pipe_fds[0]);
    return StartError(executable, error);
  }
  return std::unique_ptr<WorkerProcess>(new WorkerProcess(pid, pipe_fds[0]));
}

WorkerProcess::~WorkerProcess() {
  if (!has_ended_) {
    kill(pid_, SIGKILL);
    Wait().IgnoreError();  // It was killed.
  }
  close(report_fd_);
}

absl::Status WorkerProcess::Wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) return absl::InternalError(strerror(errno));
  }
  has_ended_ = true;
  if (WIFSIGNALED(status)) {
    return absl::InternalError(absl::StrCat(
        "process ", pid_, " was ended by signal ", WTERMSIG(status)));
  }
  if (WEXITSTATUS(status) != 0) {
    return absl::InternalError(absl::StrCat(
        "process ", pid_, " ended with exit status ", WEXITSTATUS(status)));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv::fashion_mnist
