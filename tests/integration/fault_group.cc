#include "tests/integration/fault_group.h"

#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/internal/steady_now.h"
#include "gtest/gtest.h"
#include "tests/integration/spawn.h"

namespace tensorkv::testing {
namespace {

// Relative to where Bazel runs tests.
constexpr char kBinary[] = "tests/integration/fault_worker";

constexpr const char* kPoints[] = {
    "joining",    "before_push", "during_push", "between_pushes",
    "after_push", "during_pull", "after_pull",  "failing"};

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
  for (int life = 0; Live(slot, life); ++life) {
  }
}

bool FaultGroup::Live(uint32_t slot, int life) {
  const std::string log = absl::StrCat(
      ::testing::TempDir(), "/", options_.name_space, "-", slot, "-", life);
  pid_t pid = 0;
  {
    MutexLock lock(&mutex_);
    if (has_failed_) return false;
    pid = Spawn(DrawArguments(slot), log);
    if (pid <= 0) {
      End();
      return false;
    }
    living_.insert(pid);
  }
  // Its id stays taken until the end is fetched, which is under the lock.
  siginfo_t how = {};
  waitid(P_PID, pid, &how, WEXITED | WNOWAIT);
  const absl::Duration end = SteadyNow();
  MutexLock lock(&mutex_);
  waitid(P_PID, pid, &how, WEXITED);
  living_.erase(pid);
  Read(slot, log);
  if (has_failed_) return false;
  if (how.si_code == CLD_KILLED && how.si_status == SIGKILL) {
    deaths_.push_back({slot, end});
    return true;
  }
  const bool ended_well = how.si_code == CLD_EXITED && how.si_status == 0;
  EXPECT_TRUE(ended_well) << options_.name_space << ", worker " << slot
                          << ": code " << how.si_code << ", status "
                          << how.si_status;
  if (!ended_well) End();
  return false;
}

void FaultGroup::End() {
  has_failed_ = true;
  for (const pid_t pid : living_) kill(pid, SIGKILL);
}

std::vector<std::string> FaultGroup::DrawArguments(uint32_t slot) {
  const bool must_die =
      deaths_.size() < static_cast<size_t>(options_.num_kills);
  std::uniform_int_distribution<size_t> point(0, std::size(kPoints) - 1);
  std::uniform_int_distribution<int> life(1, options_.max_life);
  std::uniform_int_distribution<int> delay_us(0, 10'000);
  return {kBinary,
          options_.target,
          options_.name_space,
          absl::StrCat("worker", slot),
          absl::StrCat(absl::ToInt64Milliseconds(options_.lease)),
          absl::StrCat(absl::ToInt64Milliseconds(options_.call_timeout)),
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
        call.reason >> call.key >> call.value >> call.version;
    std::getline(fields, call.message);
    call.begin = absl::Microseconds(begin_us);
    call.end = absl::Microseconds(end_us);
    call.code = static_cast<absl::StatusCode>(code);
    calls_.push_back(std::move(call));
  }
}

}  // namespace tensorkv::testing
