#include "tests/integration/fault_group.h"

#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/steady_now.h"
#include "gtest/gtest.h"
#include "tests/integration/spawn.h"

namespace tensorkv::testing {
namespace {

// Relative to where Bazel runs tests.
constexpr char kBinary[] = "tests/integration/fault_worker";

constexpr const char* kPoints[] = {
    "joining",     "before_push", "during_push",   "after_push",
    "during_pull", "after_pull",  "during_barrier"};

}  // namespace

FaultGroup::FaultGroup(const FaultGroupOptions& options)
    : options_(options), random_(options.seed) {}

void FaultGroup::Run() {
  std::vector<std::thread> slots;
  for (uint32_t slot = 0; slot < options_.num_workers; ++slot) {
    slots.emplace_back([this, slot] { RunSlot(slot); });
  }
  for (std::thread& slot : slots) slot.join();
}

void FaultGroup::RunSlot(uint32_t slot) {
  for (int life = 0; !Live(slot, life); ++life) {
  }
}

bool FaultGroup::Live(uint32_t slot, int life) {
  const std::string log = absl::StrCat(
      ::testing::TempDir(), "/", options_.name_space, "-", slot, "-", life);
  const pid_t pid = Spawn(DrawArguments(slot), log);
  int status = 0;
  waitpid(pid, &status, 0);
  const absl::Duration end = SteadyNow();
  MutexLock lock(&mutex_);
  Read(slot, log);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
    deaths_.push_back({slot, end});
    return false;
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << options_.name_space << ", worker " << slot << ": status " << status;
  return true;
}

std::vector<std::string> FaultGroup::DrawArguments(uint32_t slot) {
  MutexLock lock(&mutex_);
  const bool must_die =
      deaths_.size() < static_cast<size_t>(options_.num_kills);
  std::uniform_int_distribution<size_t> point(0, std::size(kPoints) - 1);
  std::uniform_int_distribution<int> life(1, 3);
  std::uniform_int_distribution<int> delay_us(0, 10'000);
  return {kBinary,
          options_.target,
          options_.name_space,
          absl::StrCat("worker", slot),
          absl::StrCat(absl::ToInt64Milliseconds(options_.lease)),
          absl::StrCat(options_.num_steps),
          must_die ? kPoints[point(random_)] : "none",
          absl::StrCat(life(random_)),
          absl::StrCat(delay_us(random_))};
}

void FaultGroup::Read(uint32_t slot, const std::string& log) {
  std::ifstream file(log);
  std::string line;
  while (std::getline(file, line)) {
    FaultCall call = {.slot = slot};
    int64_t begin_us = 0;
    int64_t end_us = 0;
    int code = 0;
    std::istringstream fields(line);
    fields >> call.verb >> call.step >> begin_us >> end_us >> code >>
        call.value >> call.version;
    std::getline(fields, call.message);
    call.begin = absl::Microseconds(begin_us);
    call.end = absl::Microseconds(end_us);
    call.code = static_cast<absl::StatusCode>(code);
    calls_.push_back(std::move(call));
  }
}

}  // namespace tensorkv::testing
