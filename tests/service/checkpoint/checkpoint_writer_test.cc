#include "service/checkpoint/checkpoint_writer.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/buffer.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace checkpoint_writer_test {

using ::testing::ElementsAre;

class ReleasedBytes final : public MemoryAccount {
 public:
  void Release(int64_t bytes) override { released += bytes; }
  int64_t released = 0;
};

// Adds a key of each size, and returns what then is released of each.
std::vector<int64_t> ReleasedOf(const std::vector<int64_t>& sizes) {
  const std::string directory =
      absl::StrCat(::testing::TempDir(), "/checkpoint-writer");
  std::filesystem::remove_all(directory);
  std::filesystem::create_directory(directory);
  std::vector<RefPtr<ReleasedBytes>> accounts;
  std::vector<int64_t> released;
  {
    CheckpointWriter writer(directory, /*former=*/nullptr,
                            /*on_pause=*/nullptr);
    EXPECT_OK(writer.Begin({.name = "n", .uid = 1}));
    for (const int64_t size : sizes) {
      accounts.push_back(MakeRefCounted<ReleasedBytes>());
      KeySnapshot key = {.key = absl::StrCat("k", accounts.size())};
      key.value = *Tensor::FromBuffer(
          DType::kU8, {size}, *HostBuffer::Allocate(size, accounts.back()));
      EXPECT_OK(writer.Add(std::move(key)));
    }
    for (const auto& account : accounts) released.push_back(account->released);
  }
  std::filesystem::remove_all(directory);
  return released;
}

TEST(CheckpointWriterTest, WritesTwoBatchesAtATimeUnlessTheyAreLarge) {
  constexpr int64_t kBatch = 70 << 20;
  constexpr int64_t kLarge = 100 << 20;

  EXPECT_THAT(ReleasedOf({kBatch, kBatch, kBatch}), ElementsAre(kBatch, 0, 0));
  EXPECT_THAT(ReleasedOf({kLarge, kLarge}), ElementsAre(kLarge, 0));
}

}  // namespace checkpoint_writer_test
}  // namespace tensorkv
