// What Checkpoints makes of checkpoints that are damaged.

#include <cstdint>
#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/checkpoint/checkpoints.h"
#include "tests/service/checkpoint/saved_store.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Filled;
using ::tensorkv::testing::FlipBit;
using ::tensorkv::testing::PushOf;
using ::tensorkv::testing::Remove;
using ::tensorkv::testing::SaveAs;
using ::tensorkv::testing::SavedStore;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::Verify;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using DamagedCheckpointsTest = testing::CheckpointsTest;

TEST_F(DamagedCheckpointsTest, DamageIsFoundAndNamed) {
  SavedStore& saved = Restart();
  ASSERT_OK(saved.Init("", "k", Filled(DType::kF32, 1)));
  ASSERT_OK(saved.checkpoints().Save());
  ASSERT_OK(saved.Push(PushOf("", "k", Filled(DType::kF32, 2))));
  const auto last = SaveAs(saved.checkpoints(), "last");
  ASSERT_OK(last);

  for (const std::string& path : FilesOf("last")) {
    FlipBit(path, -1);

    EXPECT_THAT(Verify(Restart().checkpoints(), "last"),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path)));
    EXPECT_THAT(Restart().checkpoints().RestoreLast(),
                StatusIs(absl::StatusCode::kDataLoss));
    SavedStore& older = Restart(/*keep=*/3, /*fallback=*/true);
    EXPECT_OK(older.checkpoints().RestoreLast());
    EXPECT_EQ(older.Pull("", "k").tensor.elements<float>()[0], 1);

    FlipBit(path, -1);
  }
  EXPECT_OK(Verify(Restart().checkpoints(), "last"));
}

// The server reads by the manifest, and others by the header.
TEST_F(DamagedCheckpointsTest, DamageOfAHeaderIsFound) {
  SavedStore& saved = Restart();
  ASSERT_OK(saved.Init("", "k", Filled(DType::kF32, 1)));
  // These begin where another one does.
  for (const char* name : {"z", "\"a:{", "b"}) {
    ASSERT_OK(saved.Init("", name, Filled(DType::kF32, 1, {0, 2})));
  }
  ASSERT_OK(SaveAs(saved.checkpoints(), "last"));
  ASSERT_OK(Verify(saved.checkpoints(), "last"));
  for (const std::string& path : FilesOf("last")) {
    if (std::filesystem::path(path).extension() != ".safetensors") continue;
    const auto header_bytes = static_cast<int64_t>(
        std::filesystem::file_size(path) - 3 * 5 * sizeof(float));
    for (int64_t i = 0; i < header_bytes; ++i) {
      FlipBit(path, i);

      EXPECT_THAT(Verify(saved.checkpoints(), "last"),
                  StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path)))
          << i;

      FlipBit(path, i);
    }
    EXPECT_OK(Verify(saved.checkpoints(), "last"));
  }
}

TEST_F(DamagedCheckpointsTest, WhatCannotBeReadIsDamage) {
  ASSERT_OK(Restart().Init("", "k", Filled(DType::kF32, 1)));
  ASSERT_OK(saved_->checkpoints().Save());
  const std::string last = directory_ + "/auto-000000002";
  std::filesystem::create_directories(last);
  log_.clear();

  EXPECT_THAT(Restart().checkpoints().RestoreLast(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(last)));
  // Reading a directory fails, as a broken disk does.
  std::filesystem::create_directories(last + "/CHECKPOINT");
  EXPECT_THAT(Restart().checkpoints().RestoreLast(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(last)));
  EXPECT_OK(Restart(/*keep=*/3, /*fallback=*/true).checkpoints().RestoreLast());
  EXPECT_THAT(log_, ElementsAre(HasSubstr(last), HasSubstr("auto-000000001")));
}

TEST_F(DamagedCheckpointsTest, AFileThatIsCutOffIsDamage) {
  SavedStore& saved = Restart();
  ASSERT_OK(saved.Init("", "k", Filled(DType::kF32, 1)));
  ASSERT_OK(SaveAs(saved.checkpoints(), "last"));

  for (const std::string& path : FilesOf("last")) {
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);

    EXPECT_THAT(Verify(saved.checkpoints(), "last"),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path)));
    ASSERT_OK(Remove(saved.checkpoints(), "last"));
    ASSERT_OK(SaveAs(saved.checkpoints(), "last"));
  }
}

TEST_F(DamagedCheckpointsTest,
       AStoreDoesNotStartEmptyIfAllCheckpointsAreDamaged) {
  ASSERT_OK(Restart().checkpoints().Save());
  CutOff("auto-000000001/CHECKPOINT");

  EXPECT_THAT(
      Restart(/*keep=*/3, /*fallback=*/true).checkpoints().RestoreLast(),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("cut off")));
}

TEST_F(DamagedCheckpointsTest, SavingGoesOnAfterADamagedCheckpoint) {
  ASSERT_OK(Restart().Init("", "k", Filled(DType::kF32, 1)));
  ASSERT_OK(saved_->checkpoints().Save());
  ASSERT_OK(saved_->checkpoints().Save());
  CutOff("auto-000000002/CHECKPOINT");
  SavedStore& saved = Restart(/*keep=*/3, /*fallback=*/true);
  ASSERT_OK(saved.checkpoints().RestoreLast());

  const auto next = saved.checkpoints().Save();

  ASSERT_OK(next);
  EXPECT_EQ(next->name(), "auto-000000003");
  EXPECT_THAT(SaveAs(saved.checkpoints(), "auto-000000002"),
              StatusIs(absl::StatusCode::kAlreadyExists));
}

}  // namespace
}  // namespace tensorkv
