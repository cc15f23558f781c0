#include "examples/fashion_mnist/worker_process.h"

#include <signal.h>

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::fashion_mnist {
namespace {

using ::absl::StatusCode;
using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

absl::StatusOr<std::unique_ptr<WorkerProcess>> StartShell(
    const std::string& script) {
  return WorkerProcess::Start("/bin/sh", {"-c", script});
}

TEST(WorkerProcessTest, EndsWellWithStatusZero) {
  ASSERT_OK_AND_ASSIGN(const auto worker, StartShell("exit 0"));

  EXPECT_OK(worker->Wait());
}

TEST(WorkerProcessTest, OtherExitStatusIsInternal) {
  ASSERT_OK_AND_ASSIGN(const auto worker, StartShell("exit 3"));

  EXPECT_THAT(worker->Wait(), StatusIs(StatusCode::kInternal,
                                       HasSubstr("ended with exit status 3")));
}

TEST(WorkerProcessTest, EndBySignalIsInternal) {
  ASSERT_OK_AND_ASSIGN(const auto worker, StartShell("kill -KILL $$"));

  EXPECT_THAT(worker->Wait(), StatusIs(StatusCode::kInternal,
                                       HasSubstr("was ended by signal 9")));
}

TEST(WorkerProcessTest, ProgramThatIsNotThereIsUnavailable) {
  EXPECT_THAT(
      WorkerProcess::Start("/nonexistent/program", {}),
      StatusIs(StatusCode::kUnavailable, HasSubstr("/nonexistent/program")));
}

TEST(WorkerProcessTest, ReportsComeThroughThePipe) {
  ASSERT_OK_AND_ASSIGN(const auto worker,
                       StartShell("printf 0123456789abcdef >&3"));

  EXPECT_THAT(worker->ReadReports(), IsOkAndHolds(SizeIs(1)));
  EXPECT_THAT(worker->ReadReports(), IsOkAndHolds(IsEmpty()));
}

TEST(WorkerProcessTest, DestructionEndsAProcessThatWouldNot) {
  ASSERT_OK_AND_ASSIGN(auto worker, StartShell("exec sleep 1000"));
  const pid_t pid = worker->pid();

  worker.reset();

  EXPECT_EQ(kill(pid, 0), -1);
}

}  // namespace
}  // namespace tensorkv::fashion_mnist
