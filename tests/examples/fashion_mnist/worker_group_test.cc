#include "examples/fashion_mnist/worker_group.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::fashion_mnist {
namespace {

using ::absl::StatusCode;
using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kReport[] = "printf 0123456789abcdef >&3";

absl::StatusOr<std::unique_ptr<WorkerGroup>> StartShells(
    const std::vector<std::string>& scripts) {
  std::vector<std::vector<std::string>> arguments;
  for (const std::string& script : scripts) {
    arguments.push_back({"-c", script});
  }
  return WorkerGroup::Start("/bin/sh", arguments);
}

// All reports until the workers end, or one of them fails.
absl::StatusOr<size_t> CountReports(WorkerGroup& group) {
  size_t count = 0;
  while (true) {
    const auto reports = group.NextReports();
    if (!reports.ok()) return reports.status();
    if (reports->empty()) return count;
    count += reports->size();
  }
}

TEST(WorkerGroupTest, ReportsOfAllWorkersComeBeforeTheEnd) {
  ASSERT_OK_AND_ASSIGN(const auto group, StartShells({kReport, kReport}));

  EXPECT_THAT(CountReports(*group), IsOkAndHolds(2));
}

TEST(WorkerGroupTest, GroupWithoutWorkersHasEnded) {
  ASSERT_OK_AND_ASSIGN(const auto group, StartShells({}));

  EXPECT_THAT(group->NextReports(), IsOkAndHolds(IsEmpty()));
}

TEST(WorkerGroupTest, WorkerThatDiesIsNamed) {
  ASSERT_OK_AND_ASSIGN(const auto group,
                       StartShells({"exec sleep 1000", "kill -KILL $$"}));

  EXPECT_THAT(CountReports(*group),
              StatusIs(StatusCode::kInternal,
                       AllOf(StartsWith("worker 1: "), HasSubstr("signal 9"))));
}

TEST(WorkerGroupTest, ProgramThatIsNotThereIsUnavailable) {
  EXPECT_THAT(WorkerGroup::Start("/nonexistent/program", {{}}),
              StatusIs(StatusCode::kUnavailable));
}

}  // namespace
}  // namespace tensorkv::fashion_mnist
