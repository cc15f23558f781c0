#include "base/watched_files.h"

#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

class WatchedFilesTest : public ::testing::Test {
 protected:
  WatchedFilesTest() {
    Write("a", "one");
    Write("b", "two");
  }

  static std::string Path(const std::string& name) {
    return absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name(), name);
  }
  static void Write(const std::string& name, const std::string& text) {
    std::ofstream(Path(name)) << text;
  }

  // Takes all but what begins with "bad".
  absl::StatusOr<std::unique_ptr<WatchedFiles>> Watch(
      absl::Duration timeout = absl::Seconds(10)) {
    return WatchedFiles::Create(
        {.files = {{"option_a", Path("a")}, {"option_b", Path("b")}, {"c", ""}},
         .apply = [this](const std::vector<FileText>& texts) -> absl::Status {
           ++num_asked_;
           if (absl::StartsWith(texts[0].text, "bad")) {
             return absl::InvalidArgumentError(
                 absl::StrCat("option_a: ", texts[0].text));
           }
           taken_.push_back(
               absl::StrCat(texts[0].text, " ", texts[1].text, texts[2].text));
           return absl::OkStatus();
         },
         .period = kPeriod,
         .timeout = timeout,
         .changed =
             [this](const absl::Status& status) {
               news_.emplace_back(status.message());
             }},
        &alarms_);
  }
  void LookTimes(int count) {
    for (int i = 0; i < count; ++i) alarms_.Advance(kPeriod);
  }

  static constexpr absl::Duration kPeriod = absl::Seconds(1);
  FakeAlarms alarms_;
  int num_asked_ = 0;
  std::vector<std::string> taken_;
  std::vector<std::string> news_;
};

TEST_F(WatchedFilesTest, TakesWhatIsThereAtTheStart) {
  ASSERT_OK_AND_ASSIGN(const auto files, Watch());

  LookTimes(5);

  EXPECT_THAT(taken_, ElementsAre("one two"));
  EXPECT_THAT(news_, IsEmpty());
  EXPECT_EQ(files->counts().applied, 0u);
  EXPECT_OK(files->status());
}

TEST_F(WatchedFilesTest, WhoeverStartsWithWrongFilesIsToldSo) {
  Write("a", "bad");
  EXPECT_THAT(Watch(), StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("option_a: bad")));
  std::remove(Path("a").c_str());
  EXPECT_THAT(Watch(), StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("option_a: cannot read")));
  EXPECT_EQ(alarms_.num_pending(), 0u);
}

TEST_F(WatchedFilesTest, KeepsWhatWasRightWhileTheFileSystemStandsStill) {
  ASSERT_OK_AND_ASSIGN(auto files, Watch(absl::Seconds(1)));
  std::remove(Path("a").c_str());
  // Whoever opens it waits until somebody writes.
  ASSERT_EQ(mkfifo(Path("a").c_str(), 0600), 0);

  LookTimes(3);

  EXPECT_THAT(news_, ElementsAre("option_a, option_b: expected to be read "
                                 "within 1s, got no answer of the file "
                                 "system"));
  EXPECT_THAT(files->Reload(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(files->status(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(taken_, ElementsAre("one two"));
  EXPECT_EQ(files->counts().refused, 1u);

  files->Stop();
  EXPECT_THAT(files->Reload(), StatusIs(absl::StatusCode::kCancelled));
  files = nullptr;
  Write("a", "");
}

TEST_F(WatchedFilesTest, OneLookAtMostWaitsForAFileSystemThatStandsStill) {
  ASSERT_OK_AND_ASSIGN(auto files, Watch(absl::Seconds(1)));
  std::remove(Path("a").c_str());
  ASSERT_EQ(mkfifo(Path("a").c_str(), 0600), 0);
  EXPECT_THAT(files->ReloadUnlessTimedOut(),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  // Lets the read that stands still end, and later ones.
  Write("a", "");
  std::remove(Path("a").c_str());
  Write("a", "ten");

  EXPECT_THAT(files->ReloadUnlessTimedOut(),
              StatusIs(absl::StatusCode::kDeadlineExceeded));

  EXPECT_THAT(taken_, ElementsAre("one two"));
}

TEST_F(WatchedFilesTest, StopEndsALookThatWaitsForTheFileSystem) {
  ASSERT_OK_AND_ASSIGN(auto files, Watch(absl::Hours(1)));
  std::remove(Path("a").c_str());
  ASSERT_EQ(mkfifo(Path("a").c_str(), 0600), 0);
  std::thread looking([&] {
    EXPECT_THAT(files->Reload(), StatusIs(absl::StatusCode::kCancelled));
  });

  const std::ofstream writer(Path("a"));  // opens once somebody reads

  files->Stop();

  looking.join();
  files = nullptr;
}

TEST_F(WatchedFilesTest, TakesAChangeThatTwoLooksHaveFound) {
  ASSERT_OK_AND_ASSIGN(const auto files, Watch());
  Write("b", "tw");  // somebody is writing
  LookTimes(1);
  Write("b", "twenty");
  LookTimes(1);
  EXPECT_THAT(taken_, ElementsAre("one two"));

  LookTimes(5);

  EXPECT_THAT(taken_, ElementsAre("one two", "one twenty"));
  EXPECT_THAT(news_, ElementsAre(""));
  EXPECT_EQ(files->counts().applied, 1u);
}

TEST_F(WatchedFilesTest, WhatIsWrongIsReportedOnceAndTakenOnceItIsRight) {
  ASSERT_OK_AND_ASSIGN(const auto files, Watch());
  Write("a", "bad");
  LookTimes(5);

  EXPECT_THAT(taken_, ElementsAre("one two"));
  EXPECT_THAT(news_, ElementsAre("option_a: bad"));
  EXPECT_EQ(files->counts().refused, 1u);
  EXPECT_THAT(files->status(), StatusIs(absl::StatusCode::kInvalidArgument));

  Write("a", "good");
  LookTimes(2);
  EXPECT_THAT(taken_, ElementsAre("one two", "good two"));
  EXPECT_OK(files->status());
}

TEST_F(WatchedFilesTest, WhatIsAsItWasIsWrongNoMore) {
  ASSERT_OK_AND_ASSIGN(const auto files, Watch());
  Write("a", "bad");
  LookTimes(2);

  Write("a", "one");
  LookTimes(1);

  EXPECT_OK(files->status());
  EXPECT_THAT(news_, ElementsAre("option_a: bad", ""));
  EXPECT_EQ(files->counts().applied, 0u);
}

// What is wrong may become right with time, as a certificate of tomorrow.
TEST_F(WatchedFilesTest, AsksAgainAboutWhatIsWrong) {
  ASSERT_OK_AND_ASSIGN(const auto files, Watch());
  Write("a", "bad");
  LookTimes(2);
  const int num_asked = num_asked_;

  LookTimes(3);

  EXPECT_EQ(num_asked_, num_asked + 3);
}

TEST_F(WatchedFilesTest, AFileThatIsAwayForAMomentIsNoNews) {
  ASSERT_OK_AND_ASSIGN(const auto files, Watch());
  std::remove(Path("a").c_str());
  LookTimes(1);
  Write("a", "one");
  LookTimes(2);
  EXPECT_THAT(news_, IsEmpty());

  std::remove(Path("a").c_str());
  LookTimes(5);

  EXPECT_THAT(news_, ElementsAre(HasSubstr("option_a: cannot read")));
  EXPECT_THAT(taken_, ElementsAre("one two"));
}

TEST_F(WatchedFilesTest, WhoeverAsksForALookGetsWhatIsThere) {
  ASSERT_OK_AND_ASSIGN(const auto files, Watch());
  Write("a", "1");

  EXPECT_OK(files->Reload());
  EXPECT_THAT(taken_, ElementsAre("one two", "1 two"));

  Write("a", "bad");
  EXPECT_THAT(files->Reload(), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(taken_.size(), 2u);
}

TEST_F(WatchedFilesTest, LooksNoMoreAfterItsEnd) {
  { ASSERT_OK_AND_ASSIGN(const auto files, Watch()); }

  EXPECT_EQ(alarms_.num_pending(), 0u);
}

}  // namespace
}  // namespace tensorkv
