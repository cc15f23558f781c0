// Checkpoints on file systems that do not have all that others have.

#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "service/checkpoint/files.h"
#include "tests/service/checkpoint/refused_calls.h"
#include "tests/service/checkpoint/saved_store.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::CheckpointsTest;
using ::tensorkv::testing::Filled;
using ::tensorkv::testing::RefusedCall;
using ::tensorkv::testing::Remove;
using ::tensorkv::testing::RenameWithFlags;
using ::tensorkv::testing::RunWithout;
using ::tensorkv::testing::SaveAs;
using ::tensorkv::testing::SavedStore;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::Verify;

constexpr char kNoFilters[] = "the system lets no process filter its calls";

std::vector<RefusedCall> NoLinks(int error) {
  return {
#ifdef SYS_link
      {.number = SYS_link, .error = error},
#endif
      {.number = SYS_linkat, .error = error}};
}

using FileSystemsTest = CheckpointsTest;

TEST_F(FileSystemsTest, ChangesOfNamesNeedNoFlags) {
  for (const int error : {EINVAL, ENOSYS, EOPNOTSUPP}) {
    std::filesystem::create_directories(directory_ + "/a/b");
    std::filesystem::create_directories(directory_ + "/full/b");
    if (!RunWithout({RenameWithFlags(error)}, [&] {
          EXPECT_THAT(Rename(directory_ + "/a", directory_ + "/full"),
                      StatusIs(absl::StatusCode::kAlreadyExists));
          EXPECT_THAT(Rename(directory_ + "/none", directory_ + "/c"),
                      StatusIs(absl::StatusCode::kNotFound));
          EXPECT_OK(Rename(directory_ + "/a", directory_ + "/c"));
        })) {
      GTEST_SKIP() << kNoFilters;
    }
    EXPECT_TRUE(Exists(directory_ + "/c/b"));
    EXPECT_FALSE(Exists(directory_ + "/a"));
    std::filesystem::remove_all(directory_);
  }
}

TEST_F(FileSystemsTest, AnErrorOfTheDiskIsNoLackOfFlags) {
  std::filesystem::create_directories(directory_ + "/a");
  if (!RunWithout({RenameWithFlags(EIO)}, [&] {
        EXPECT_THAT(Rename(directory_ + "/a", directory_ + "/b"),
                    StatusIs(absl::StatusCode::kInternal));
      })) {
    GTEST_SKIP() << kNoFilters;
  }
}

// Files that cannot be shared are written again.
TEST_F(FileSystemsTest, CheckpointsNeedNeitherFlagsNorLinks) {
  for (const int error : {EPERM, EOPNOTSUPP, EMLINK}) {
    std::vector<RefusedCall> refused = NoLinks(error);
    refused.push_back(RenameWithFlags(EINVAL));
    SavedStore& saved = Restart(/*keep=*/1, /*fallback=*/false,
                                /*full_every=*/10);
    ASSERT_OK(saved.Init("", "k", Filled(DType::kF32, 1)));
    if (!RunWithout(refused, [&] {
          EXPECT_OK(saved.checkpoints().Save());
          EXPECT_OK(saved.checkpoints().Save());  // removes the one before
          EXPECT_OK(SaveAs(saved.checkpoints(), "mine"));
          EXPECT_THAT(SaveAs(saved.checkpoints(), "mine"),
                      StatusIs(absl::StatusCode::kAlreadyExists));
          EXPECT_OK(Remove(saved.checkpoints(), "mine"));
        })) {
      GTEST_SKIP() << kNoFilters;
    }

    SavedStore& restored = Restart();
    ASSERT_OK(restored.checkpoints().RestoreLast());
    EXPECT_EQ(restored.Pull("", "k").tensor.elements<float>()[0], 1);
    EXPECT_EQ(
        restored.checkpoints().ListCheckpoints({}, {})->checkpoints_size(), 1);
    saved_.reset();
    std::filesystem::remove_all(directory_);
  }
}

TEST_F(FileSystemsTest, ADirectoryThatIsMadeIsOnTheDiskWithItsName) {
  if (!RunWithout({{.number = SYS_fsync, .error = EIO}}, [&] {
        EXPECT_THAT(MakeDirectories(directory_ + "/a/b"),
                    StatusIs(absl::StatusCode::kInternal));
        EXPECT_OK(MakeDirectories(directory_ + "/a/b"));  // it is there
      })) {
    GTEST_SKIP() << kNoFilters;
  }
}

TEST_F(FileSystemsTest, DirectoriesThatCannotBeSyncedAreTaken) {
  std::filesystem::create_directories(directory_);
  for (const int error : {EINVAL, EOPNOTSUPP}) {
    if (!RunWithout({{.number = SYS_fsync, .error = error}},
                    [&] { EXPECT_OK(SyncDirectory(directory_)); })) {
      GTEST_SKIP() << kNoFilters;
    }
  }
}

TEST_F(FileSystemsTest, ALockThatIsNotToBeHadIsNoOtherServer) {
  SavedStore& other = Restart();
  if (!RunWithout({{.number = SYS_flock, .error = ENOSYS}}, [&] {
        EXPECT_THAT(Checkpoints::Create({.directory = directory_ + "/new"},
                                        &other.store())
                        .status(),
                    StatusIs(absl::StatusCode::kFailedPrecondition));
      })) {
    GTEST_SKIP() << kNoFilters;
  }
}

// An answer that says no and a list that says yes would leave nobody the wiser.
TEST_F(FileSystemsTest, WhatMayBeGoneAfterACrashIsNotListed) {
  SavedStore& saved = Restart();
  ASSERT_OK(saved.Init("", "k", Filled(DType::kF32, 1)));
  absl::Status disk = absl::InternalError("the disk fails");
  ASSERT_OK_AND_ASSIGN(
      const auto checkpoints,
      Checkpoints::Create(
          {.directory = directory_ + "/inner",
           .incarnation = 1,
           .sync_directory = [&](const std::string&) { return disk; }},
          &saved.store()));

  EXPECT_THAT(SaveAs(*checkpoints, "mine"),
              StatusIs(absl::StatusCode::kInternal));
  EXPECT_TRUE(checkpoints->ListCheckpoints({}, {})->checkpoints().empty());

  disk = absl::OkStatus();
  EXPECT_OK(SaveAs(*checkpoints, "mine"));
  EXPECT_OK(Verify(*checkpoints, "mine"));
}

}  // namespace
}  // namespace tensorkv
