#include "bench/harness/child_process.h"

#include <signal.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

// Far more than any child here takes.
constexpr absl::Duration kTimeout = absl::Minutes(1);

absl::StatusOr<std::unique_ptr<ChildProcess>> StartShell(
    const std::string& script, const CpuList& cpus = {}) {
  return ChildProcess::Start({"sh", "-c", script}, cpus);
}

TEST(ChildProcessTest, FindsALineOnEitherOutput) {
  ASSERT_OK_AND_ASSIGN(const auto child,
                       StartShell("echo first; echo ready now >&2"));

  EXPECT_THAT(child->AwaitLine("ready", kTimeout), IsOkAndHolds("ready now"));
  EXPECT_THAT(child->Output(), HasSubstr("first\n"));
}

TEST(ChildProcessTest, AnEndBeforeTheLineIsUnavailableAndShowsTheOutput) {
  ASSERT_OK_AND_ASSIGN(const auto child, StartShell("echo no such flag"));

  EXPECT_THAT(
      child->AwaitLine("ready", kTimeout),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no such flag")));
  EXPECT_TRUE(child->has_ended());
}

TEST(ChildProcessTest, SilenceExceedsTheDeadline) {
  ASSERT_OK_AND_ASSIGN(const auto child, StartShell("kill -STOP $$"));

  EXPECT_THAT(child->AwaitLine("ready", absl::Milliseconds(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST(ChildProcessTest, AProgramThatIsNotThereIsNotFound) {
  EXPECT_THAT(ChildProcess::Start({"tensorkv-no-such-program"}, {}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("tensorkv-no-such-program")));
}

TEST(ChildProcessTest, RunsOnTheCpusThatItIsGiven) {
  const int cpu = AllowedCpus().front();
  ASSERT_OK_AND_ASSIGN(
      const auto child,
      StartShell("grep Cpus_allowed_list /proc/self/status", {cpu}));

  EXPECT_THAT(child->AwaitLine("Cpus_allowed_list", kTimeout),
              IsOkAndHolds(absl::StrCat("Cpus_allowed_list:\t", cpu)));
}

TEST(ChildProcessTest, IsKilledWithItsObject) {
  ASSERT_OK_AND_ASSIGN(auto child, StartShell("echo here; kill -STOP $$"));
  ASSERT_OK(child->AwaitLine("here", kTimeout));
  const pid_t pid = child->pid();

  child.reset();

  EXPECT_NE(kill(pid, 0), 0);
}

}  // namespace
}  // namespace tensorkv::bench
