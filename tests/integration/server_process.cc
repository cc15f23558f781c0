#include "tests/integration/server_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/testing/test_device.h"

namespace tensorkv::testing {
namespace {

// Relative to where Bazel runs tests.
constexpr char kBinary[] = "service/tensorkv-server";

// The flags, and TestDevice() unless they choose a device.
std::vector<std::string> WithDevice(std::vector<std::string> flags) {
  const bool has_device =
      std::any_of(flags.begin(), flags.end(), [](const std::string& flag) {
        return absl::StartsWith(flag, "--device=");
      });
  if (!has_device) flags.push_back("--device=" + TestDevice());
  return flags;
}

}  // namespace

ServerProcess::ServerProcess(const std::vector<std::string>& flags) {
  const std::vector<std::string> all_flags = WithDevice(flags);
  std::vector<char*> arguments = {const_cast<char*>(kBinary)};
  for (const std::string& flag : all_flags) {
    arguments.push_back(const_cast<char*>(flag.c_str()));
  }
  arguments.push_back(nullptr);
  int log_pipe[2];
  EXPECT_EQ(pipe2(log_pipe, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, log_pipe[1], STDERR_FILENO);
  EXPECT_EQ(
      posix_spawn(&pid_, kBinary, &actions, nullptr, arguments.data(), environ),
      0);
  posix_spawn_file_actions_destroy(&actions);
  close(log_pipe[1]);
  log_fd_ = log_pipe[0];
}

ServerProcess::~ServerProcess() {
  if (pid_ > 0) {
    Signal(SIGKILL);
    Wait();
  }
  CloseLog();
}

std::string ServerProcess::AwaitLine(const std::string& text) {
  passed_over_.clear();
  while (true) {
    const std::string line = ReadLine();
    std::cout << "server: " << line;
    if (line.empty() || line.find(text) != std::string::npos) return line;
    passed_over_ += line;
  }
}

bool ServerProcess::AwaitServing() {
  const std::string text = "cluster: serving";
  return passed_over_.find(text) != std::string::npos ||
         !AwaitLine(text).empty();
}

std::string ServerProcess::AwaitAddress() {
  const std::string field = "listen=";
  const std::string line = AwaitLine("ready " + field);
  const size_t begin = line.find(field) + field.size();
  return line.substr(begin, line.find(' ', begin) - begin);
}

int64_t ServerProcess::StatusField(const std::string& name) const {
  std::ifstream file(absl::StrCat("/proc/", pid_, "/status"));
  std::string word;
  while (file >> word) {
    if (word != name) continue;
    int64_t value = -1;
    file >> value;
    return value;
  }
  return -1;
}

std::string ServerProcess::ReadAll() {
  std::string all;
  for (std::string line = ReadLine(); !line.empty(); line = ReadLine()) {
    all += line;
  }
  return all;
}

void ServerProcess::CloseLog() {
  close(log_fd_);
  log_fd_ = -1;
}

void ServerProcess::Signal(int signal) { kill(pid_, signal); }

int ServerProcess::Wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string ServerProcess::ReadLine() {
  std::string line;
  char byte;
  while (read(log_fd_, &byte, 1) == 1) {
    line += byte;
    if (byte == '\n') break;
  }
  return line;
}

}  // namespace tensorkv::testing
