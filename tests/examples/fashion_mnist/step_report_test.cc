#include "examples/fashion_mnist/step_report.h"

#include <signal.h>
#include <unistd.h>

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::fashion_mnist {
namespace {

using ::absl::StatusCode;
using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr StepReport kFirst = {
    .epoch = 1, .step = 1, .num_steps = 9, .mean_loss = 2.5F};
constexpr StepReport kSecond = {
    .epoch = 1, .step = 2, .num_steps = 9, .mean_loss = 1.5F};

class StepReportTest : public ::testing::Test {
 protected:
  StepReportTest() {
    signal(SIGPIPE, SIG_IGN);
    int fds[2];
    if (pipe(fds) != 0) return;
    read_fd_ = fds[0];
    write_fd_ = fds[1];
  }
  ~StepReportTest() override {
    Close(&read_fd_);
    Close(&write_fd_);
  }

  static void Close(int* fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }

  int read_fd_ = -1;
  int write_fd_ = -1;
};

TEST_F(StepReportTest, ReaderGetsWhatWasWritten) {
  ASSERT_OK(WriteReport(write_fd_, kFirst));
  ASSERT_OK(WriteReport(write_fd_, kSecond));

  ReportReader reader(read_fd_);

  EXPECT_THAT(reader.Read(), IsOkAndHolds(ElementsAre(kFirst, kSecond)));
}

TEST_F(StepReportTest, ReaderOfClosedPipeGetsNothing) {
  Close(&write_fd_);

  ReportReader reader(read_fd_);

  EXPECT_THAT(reader.Read(), IsOkAndHolds(IsEmpty()));
}

TEST_F(StepReportTest, ReaderJoinsAReportThatComesInPieces) {
  const char* bytes = reinterpret_cast<const char*>(&kSecond);
  ReportReader reader(read_fd_);

  ASSERT_OK(WriteReport(write_fd_, kFirst));
  ASSERT_EQ(write(write_fd_, bytes, 5), 5);
  EXPECT_THAT(reader.Read(), IsOkAndHolds(ElementsAre(kFirst)));
  const ssize_t rest = sizeof(kSecond) - 5;
  ASSERT_EQ(write(write_fd_, bytes + 5, rest), rest);

  EXPECT_THAT(reader.Read(), IsOkAndHolds(ElementsAre(kSecond)));
}

TEST_F(StepReportTest, ReaderDropsHalfAReportOfAWriterThatEnded) {
  ASSERT_EQ(write(write_fd_, &kFirst, 5), 5);
  Close(&write_fd_);

  ReportReader reader(read_fd_);

  EXPECT_THAT(reader.Read(), IsOkAndHolds(IsEmpty()));
}

TEST_F(StepReportTest, WriteWithoutReaderIsUnavailable) {
  Close(&read_fd_);

  EXPECT_THAT(WriteReport(write_fd_, kFirst),
              StatusIs(StatusCode::kUnavailable));
}

TEST_F(StepReportTest, ReadOfNoPipeIsUnavailable) {
  ReportReader reader(/*fd=*/-1);

  EXPECT_THAT(reader.Read(), StatusIs(StatusCode::kUnavailable));
}

}  // namespace
}  // namespace tensorkv::fashion_mnist
