#include "service/checkpoint/tensor_reader.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/checkpoint/saved_checkpoint.h"
#include "tests/service/checkpoint/saved_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::CheckpointsTest;
using ::tensorkv::testing::Filled;
using ::tensorkv::testing::PushOf;
using ::tensorkv::testing::RestoreOf;
using ::tensorkv::testing::SaveAs;
using ::tensorkv::testing::SavedStore;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::Verify;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Below, at and above what shares a buffer, and what is read at once.
constexpr int64_t kSizes[] = {0,      1,      1000,   1024,   1025,
                              131072, 131073, 131072, 600000, 1};

Tensor Different(int64_t size, int seed) {
  Tensor tensor = *Tensor::Allocate(DType::kF32, {size});
  for (float& element : tensor.mutable_elements<float>()) {
    element = static_cast<float>(++seed % 1009);
  }
  return tensor;
}

std::string NameOf(size_t key) { return absl::StrCat("key-", key); }

// A checkpoint of keys of all those sizes, whose rule keeps two states.
class TensorReaderTest : public CheckpointsTest {
 protected:
  TensorReaderTest() {
    SavedStore& saved = Restart();
    NamespaceConfig config;
    config.rule = *ParseRuleSpec("adam(learning_rate=0.1)");
    CreateNamespace(saved, "n", config);
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      EXPECT_OK(saved.Init("n", NameOf(i), Different(kSizes[i], i)));
      EXPECT_OK(
          saved.Push(PushOf("n", NameOf(i), Different(kSizes[i], 2 * i))));
    }
    EXPECT_OK(SaveAs(saved.checkpoints(), "all"));
  }

  static std::vector<std::string> AllBytes(SavedStore& at) {
    std::vector<std::string> all;
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      all.push_back(BytesOf(at.Pull("n", NameOf(i))));
      for (const char* state : {"mean", "variance"}) {
        all.push_back(BytesOf(at.GetState("n", NameOf(i), state)));
      }
    }
    return all;
  }
};

TEST_F(TensorReaderTest, TensorsOfAllSizesAreAsTheyWereAndTakeAsMuch) {
  const std::vector<std::string> before = AllBytes(*saved_);
  const NamespaceStatus status = testing::Described(saved_->store(), "n");

  SavedStore& restored = Restart();
  ASSERT_OK(restored.checkpoints().RestoreLast());

  EXPECT_TRUE(AllBytes(restored) == before);
  const NamespaceStatus again = testing::Described(restored.store(), "n");
  EXPECT_EQ(again.memory().values(), status.memory().values());
  EXPECT_EQ(again.memory().state(), status.memory().state());
  EXPECT_EQ(again.memory().contributions(), 0u);
}

TEST_F(TensorReaderTest, TensorsThatAreNotKeptNeedNoMemory) {
  const std::string directory = absl::StrCat(directory_, "/all");
  const v1::NamespaceManifest manifest =
      *SavedCheckpoint::Open(directory)->ManifestOf("n");
  std::vector<TensorToRead> tensors;
  for (const v1::SavedKey& key : manifest.keys()) {
    const v1::SavedTensor& value = key.tensors(0);
    const size_t size = sizeof(float) * value.shape(0);
    tensors.push_back({key.key(), &value, absl::Span<char>(nullptr, size)});
  }
  TensorReader reader(directory, manifest);

  ASSERT_OK(reader.Start(std::move(tensors)));

  EXPECT_OK(reader.Wait());
}

// Of a tensor that is read in pieces, too.
TEST_F(TensorReaderTest, DamageAnywhereIsFound) {
  std::string path;
  for (const std::string& file : FilesOf("all")) {
    if (absl::StrContains(file, "values")) path = file;
  }
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  for (int tenth = 3; tenth < 10; ++tenth) {
    const int64_t place = size / 10 * tenth;
    testing::FlipBit(path, place);

    EXPECT_THAT(Verify(saved_->checkpoints(), "all"),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr(path), HasSubstr("\"key-"))))
        << place;
    EXPECT_THAT(Restart().checkpoints().RestoreLast(),
                StatusIs(absl::StatusCode::kDataLoss));

    testing::FlipBit(path, place);
  }
}

std::vector<std::string> AllBytes(SavedStore& at, const std::string& name) {
  std::vector<std::string> all = {BytesOf(at.Pull(name, "k"))};
  for (const std::string state : {"mean", "variance", "max_variance"}) {
    all.push_back(BytesOf(at.GetState(name, "k", state)));
  }
  return all;
}

// Nothing is counted twice on its way.
TEST_F(CheckpointsTest, WhatIsRestoredTakesNoMoreRoomThanItHad) {
  SavedStore& saved = Restart();
  constexpr int64_t kElements = 1 << 19;
  constexpr uint64_t kValueBytes = 2 * kElements;
  NamespaceConfig config;
  // Three states and the copy that it keeps of 16-bit values are eight times as
  // large as these.
  config.rule = *ParseRuleSpec("amsgrad(learning_rate=0.1)");
  CreateNamespace(saved, "n", config);
  ASSERT_OK(saved.Init("n", "k", Filled(DType::kBF16, 1, {kElements})));
  ASSERT_OK(saved.Push(PushOf("n", "k", Filled(DType::kBF16, 2, {kElements}))));
  ASSERT_EQ(testing::Described(saved.store(), "n").memory().state(),
            8 * kValueBytes);
  ASSERT_OK(SaveAs(saved.checkpoints(), "saved"));
  const std::vector<std::string> before = AllBytes(saved, "n");
  const uint64_t room_bytes = 9 * kValueBytes + (64 << 10);
  const uint64_t filled_bytes =
      SavedStore::kBudgetBytes - saved.store().used_bytes() - room_bytes;
  ASSERT_OK(
      saved.Init("", "large",
                 Filled(DType::kF32, 0,
                        {static_cast<int64_t>(filled_bytes / sizeof(float))})));

  ASSERT_OK(saved.checkpoints().RestoreCheckpoint(
      RestoreOf("saved", {"n"}, "again"), {}));

  // Reading them takes room as well.
  ASSERT_OK(testing::MakeNow(saved.store(), testing::RemoveOf("n")));
  EXPECT_TRUE(AllBytes(saved, "again") == before);
}

}  // namespace
}  // namespace tensorkv
