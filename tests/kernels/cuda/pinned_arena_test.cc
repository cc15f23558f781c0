#include "kernels/cuda/pinned_arena.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

constexpr size_t kArenaMiB = size_t{1} << 20;

class PinnedArenaTest : public ::testing::Test {
 protected:
  std::shared_ptr<PinnedArena> Arena(size_t max_bytes) {
    return PinnedArena::Create(
        *DevicePool::Create(gpu_.Open(), /*quota_bytes=*/kArenaMiB), max_bytes);
  }

  testing::FakeGpu gpu_;
};

TEST_F(PinnedArenaTest, PiecesAreApartAndComeBackWhole) {
  const auto arena = Arena(4 * kArenaMiB);
  std::mt19937_64 random(7);
  std::vector<std::pair<RefPtr<Buffer>, int>> pieces;
  for (int i = 0; i < 5000; ++i) {
    if (pieces.empty() || random() % 5 < 3) {
      RefPtr<Buffer> piece = arena->Allocate(1 + random() % 100'000, nullptr);
      if (piece) {
        ASSERT_EQ(reinterpret_cast<uintptr_t>(piece->data()) % 64, 0u);
        ASSERT_TRUE(arena->Has(piece->data(), piece->size_bytes()));
        std::memset(piece->mutable_data(), i % 256, piece->size_bytes());
        pieces.emplace_back(std::move(piece), i % 256);
        continue;
      }
    }
    std::swap(pieces[random() % pieces.size()], pieces.back());
    const auto& [piece, filled_with] = pieces.back();
    ASSERT_EQ(absl::string_view(piece->data(), piece->size_bytes()),
              std::string(piece->size_bytes(), static_cast<char>(filled_with)));
    pieces.pop_back();
  }
  pieces.clear();

  EXPECT_EQ(arena->used_bytes(), 0u);
  EXPECT_EQ(arena->size_bytes(), 4 * kArenaMiB);
  EXPECT_NE(arena->Allocate(4 * kArenaMiB, nullptr), nullptr);
}

TEST_F(PinnedArenaTest, GrowsByBlocksUpToItsBound) {
  const auto arena = Arena(160 * kArenaMiB);
  EXPECT_EQ(gpu_.usage().pinned_bytes, 0u);

  const RefPtr<Buffer> small = arena->Allocate(1, nullptr);
  EXPECT_EQ(arena->size_bytes(), 64 * kArenaMiB);
  const RefPtr<Buffer> large = arena->Allocate(70 * kArenaMiB, nullptr);
  EXPECT_EQ(arena->size_bytes(), 134 * kArenaMiB);
  const RefPtr<Buffer> last = arena->Allocate(64 * kArenaMiB, nullptr);

  EXPECT_NE(small, nullptr);
  EXPECT_NE(large, nullptr);
  EXPECT_EQ(last, nullptr);  // the first block's rest and 26 MiB more
  EXPECT_EQ(arena->used_bytes(), 70 * kArenaMiB + 64);
}

TEST_F(PinnedArenaTest, HasNothingWhereNoPagesCanBeLocked) {
  const auto arena = Arena(kArenaMiB);
  gpu_.FailCall(0, absl::ResourceExhaustedError("no more pages"));

  EXPECT_EQ(arena->Allocate(1, nullptr), nullptr);
  EXPECT_NE(arena->Allocate(1, nullptr), nullptr);
}

TEST_F(PinnedArenaTest, BufferOutlivesTheArena) {
  RefPtr<Buffer> buffer = Arena(kArenaMiB)->Allocate(100, nullptr);

  std::memset(buffer->mutable_data(), 1, 100);
  buffer = nullptr;

  EXPECT_EQ(gpu_.usage().pinned_bytes, 0u);
}

TEST_F(PinnedArenaTest, OthersMemoryIsNotOfIt) {
  const auto arena = Arena(kArenaMiB);
  const RefPtr<Buffer> buffer = arena->Allocate(kArenaMiB, nullptr);
  const RefPtr<Buffer> other = *HostBuffer::Allocate(100);

  EXPECT_TRUE(arena->Has(buffer->data() + 1, kArenaMiB - 1));
  EXPECT_FALSE(arena->Has(buffer->data() + 1, kArenaMiB));
  EXPECT_FALSE(arena->Has(other->data(), 100));
}

}  // namespace
}  // namespace tensorkv
