#include "service/checkpoint/saved_checkpoint.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/checkpoint/saved_store.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::CheckpointsTest;
using ::tensorkv::testing::Filled;
using ::tensorkv::testing::SaveAs;
using ::tensorkv::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// More than three batches of small keys.
constexpr int kNumKeys = 3 * 4097;

std::string NameOf(int i) { return absl::StrCat("k", i); }

// Takes the keys that come, all but the batch of that place. Has memory for so
// many tensors that have not come yet.
class Recorder final : public Restoration {
 public:
  explicit Recorder(size_t refused = SIZE_MAX, size_t max_coming = SIZE_MAX)
      : refused_(refused), max_coming_(max_coming) {}

  absl::Status Begin(const NamespaceSnapshot&) override {
    return absl::OkStatus();
  }
  absl::StatusOr<Tensor> Allocate(DType dtype, Shape shape) override {
    if (num_coming_ == max_coming_) {
      return absl::ResourceExhaustedError("no room");
    }
    ++num_coming_;
    return Tensor::Allocate(dtype, std::move(shape));
  }
  absl::Status Add(std::vector<KeySnapshot> keys) override {
    if (batches.size() == refused_) return absl::AbortedError("refused");
    num_coming_ -= keys.size();
    batches.push_back(std::move(keys));
    return absl::OkStatus();
  }
  absl::Status Commit() override { return absl::OkStatus(); }

  std::vector<std::vector<KeySnapshot>> batches;

 private:
  const size_t refused_;
  const size_t max_coming_;
  size_t num_coming_ = 0;
};

// A checkpoint of keys of which each has a value of its own.
class ManyKeysTest : public CheckpointsTest {
 protected:
  ManyKeysTest() {
    InitRequest request;
    for (int i = 0; i < kNumKeys; ++i) {
      request.entries.push_back({NameOf(i), Filled(DType::kI32, i, {1})});
    }
    EXPECT_OK(Restart().Init(std::move(request)));
    EXPECT_OK(SaveAs(saved_->checkpoints(), "many"));
  }

  SavedCheckpoint Open() const {
    return *SavedCheckpoint::Open(absl::StrCat(directory_, "/many"));
  }
};

TEST_F(ManyKeysTest, EachComesOnceWithItsValue) {
  Recorder to;
  ASSERT_OK(Open().RestoreTo(to));

  ASSERT_GT(to.batches.size(), 3);
  std::vector<int> times(kNumKeys);
  for (const std::vector<KeySnapshot>& batch : to.batches) {
    for (const KeySnapshot& key : batch) {
      const int i = key.value.elements<int32_t>()[0];
      ASSERT_EQ(key.key, NameOf(i));
      ++times[i];
    }
  }
  EXPECT_THAT(times, Each(1));
}

TEST_F(ManyKeysTest, WaitsForMemoryOfThoseBefore) {
  Recorder to(SIZE_MAX, /*max_coming=*/1500);

  ASSERT_OK(Open().RestoreTo(to));

  size_t num_keys = 0;
  for (const std::vector<KeySnapshot>& batch : to.batches) {
    EXPECT_LE(batch.size(), 1500u);
    num_keys += batch.size();
  }
  EXPECT_EQ(num_keys, kNumKeys);
}

TEST_F(ManyKeysTest, KeyThatHasNoRoomAloneIsRefused) {
  Recorder to(SIZE_MAX, /*max_coming=*/0);

  EXPECT_THAT(Open().RestoreTo(to),
              StatusIs(absl::StatusCode::kResourceExhausted, "no room"));
  EXPECT_THAT(to.batches, SizeIs(0));
}

TEST_F(ManyKeysTest, NothingComesAfterABatchThatIsRefused) {
  for (size_t refused = 0; refused < 4; ++refused) {
    Recorder to(refused);
    EXPECT_THAT(Open().RestoreTo(to), StatusIs(absl::StatusCode::kAborted));
    EXPECT_THAT(to.batches, SizeIs(refused));
  }
}

TEST_F(ManyKeysTest, DamageOfTheLastBatchIsNamedAfterTheOthers) {
  const v1::NamespaceManifest manifest = *Open().ManifestOf("default");
  const v1::SavedKey& last = manifest.keys(kNumKeys - 1);
  const std::string path = absl::StrCat(directory_, "/many/",
                                        manifest.files(last.tensors(0).file()));
  testing::FlipBit(path, static_cast<int64_t>(last.tensors(0).offset()));

  Recorder to;
  EXPECT_THAT(Open().RestoreTo(to),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(last.key())));
  EXPECT_THAT(to.batches, SizeIs(3));
}

}  // namespace
}  // namespace tensorkv
