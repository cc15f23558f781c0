#include "tests/service/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace tensorkv::testing {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

ChildProcess::ChildProcess(std::vector<std::string> arguments) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  const std::vector<char*> argv = Pointers(arguments);
  if (posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ) !=
      0) {
    pid_ = -1;
  }
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  output_fd_ = ends[0];
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    Signal(SIGKILL);
    Wait();
  }
  close(output_fd_);
}

std::string ChildProcess::WaitForLine(absl::string_view text) {
  do {
    for (absl::string_view line : absl::StrSplit(output_, '\n')) {
      // Whole lines only: the last piece may be half a line.
      const bool is_whole = line.end() != output_.data() + output_.size();
      if (is_whole && absl::StrContains(line, text)) return std::string(line);
    }
  } while (Read());
  return "";
}

void ChildProcess::Signal(int signal) {
  if (pid_ > 0) kill(pid_, signal);
}

int ChildProcess::Wait() {
  while (Read()) {
  }
  int status = 0;
  if (pid_ <= 0 || waitpid(pid_, &status, 0) != pid_) return -1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool ChildProcess::Read() {
  char buffer[4096];
  const ssize_t size = read(output_fd_, buffer, sizeof(buffer));
  if (size <= 0) return false;
  output_.append(buffer, static_cast<size_t>(size));
  return true;
}

}  // namespace tensorkv::testing
