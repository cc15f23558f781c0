#include "bench/harness/clocks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "gtest/gtest.h"

namespace tensorkv::bench {
namespace {

// Of a process that has ended.
pid_t FormerProcess() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

TEST(ClocksTest, TimeIsNeverSetBack) {
  const absl::Duration before = SteadyTime();

  EXPECT_GE(SteadyTime(), before);
}

TEST(ClocksTest, WorkTakesCpuTime) {
  const absl::Duration before = CpuTimeOf(0);

  while (CpuTimeOf(getpid()) == before) {
  }

  EXPECT_GT(CpuTimeOf(0), before);
}

TEST(ClocksTest, AProcessHasMemory) {
  EXPECT_GT(ResidentBytesOf(getpid()), 100'000);
}

TEST(ClocksTest, AProcessThatIsNoMoreHasNothing) {
  const pid_t process = FormerProcess();

  EXPECT_EQ(CpuTimeOf(process), absl::ZeroDuration());
  EXPECT_EQ(ResidentBytesOf(process), 0);
}

}  // namespace
}  // namespace tensorkv::bench
