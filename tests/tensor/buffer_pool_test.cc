#include "tensor/buffer_pool.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;

constexpr size_t kMiB = 1 << 20;

// Counts what was given back.
class ReleasedBytes final : public MemoryAccount {
 public:
  void Release(int64_t bytes) override { released += bytes; }
  int64_t released = 0;
};

class BufferPoolTest : public ::testing::Test {
 protected:
  RefPtr<Buffer> Allocate(size_t size_bytes) {
    return pool_->Allocate(size_bytes).value();
  }

  RefPtr<BufferPool> pool_ = MakeRefCounted<BufferPool>(8 * kMiB);
};

TEST_F(BufferPoolTest, MemoryIsAlignedAndAsLargeAsAskedFor) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{65'535},
                            size_t{65'536}, size_t{65'537}, 3 * kMiB + 1}) {
    const RefPtr<Buffer> buffer = Allocate(size);
    ASSERT_EQ(buffer->size_bytes(), size);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % kBufferAlignment,
              0);
    std::memset(buffer->mutable_data(), 1, size);
  }
}

TEST_F(BufferPoolTest, MemoryFitsBuffersOfAboutTheSameSize) {
  RefPtr<Buffer> buffer = Allocate(1'000'000);
  const char* const memory = buffer->data();
  buffer = nullptr;

  buffer = Allocate(1'040'000);

  EXPECT_EQ(buffer->data(), memory);
  EXPECT_EQ(buffer->size_bytes(), 1'040'000);
}

TEST_F(BufferPoolTest, ClassesWasteAnEighthAtMost) {
  for (size_t size = BufferPool::kMinPooledBytes; size < 8 * kMiB;
       size += size / 50) {
    pool_ = MakeRefCounted<BufferPool>(8 * kMiB);
    Allocate(size);
    ASSERT_GE(pool_->idle_bytes(), size);
    ASSERT_LE(pool_->idle_bytes(), size + size / 8);
  }
}

TEST_F(BufferPoolTest, SmallBuffersAreNotKept) {
  Allocate(BufferPool::kMinPooledBytes - 1);

  EXPECT_EQ(pool_->idle_bytes(), 0);
}

TEST_F(BufferPoolTest, MemoryThatCameBackFirstGoesFirst) {
  RefPtr<Buffer> first = Allocate(4 * kMiB);
  RefPtr<Buffer> second = Allocate(3 * kMiB);
  RefPtr<Buffer> third = Allocate(2 * kMiB);
  const char* const kept = second->data();
  first = nullptr;
  second = nullptr;

  third = nullptr;

  EXPECT_EQ(pool_->idle_bytes(), 5 * kMiB);
  EXPECT_EQ(Allocate(3 * kMiB)->data(), kept);
}

TEST_F(BufferPoolTest, TrimGivesBackWhatWasNotUsedSinceTheLastTrim) {
  Allocate(4 * kMiB);
  Allocate(kMiB);
  EXPECT_EQ(pool_->TrimUnused(), 5 * kMiB);  // All of it was used before.

  RefPtr<Buffer> used = Allocate(kMiB);
  used = nullptr;

  EXPECT_EQ(pool_->TrimUnused(), kMiB);
  EXPECT_EQ(pool_->TrimUnused(), 0);
  EXPECT_EQ(pool_->idle_bytes(), 0);
}

TEST_F(BufferPoolTest, SteadyUseKeepsTheMemoryOfEverySize) {
  for (int i = 0; i < 5; ++i) {
    Allocate(4 * kMiB);
    Allocate(kMiB);
    EXPECT_EQ(pool_->TrimUnused(), 5 * kMiB);
  }
}

TEST_F(BufferPoolTest, TellsWhenMemoryIsIdleWhereNoneWas) {
  int times_told = 0;
  const auto pool = MakeRefCounted<BufferPool>(2 * kMiB, [&] { ++times_told; });
  const auto trim_all = [&] {
    pool->TrimUnused();
    pool->TrimUnused();
  };
  RefPtr<Buffer> first = pool->Allocate(kMiB).value();
  RefPtr<Buffer> second = pool->Allocate(kMiB).value();

  first = nullptr;
  second = nullptr;
  EXPECT_EQ(times_told, 1);

  trim_all();
  pool->Allocate(kMiB).value();
  EXPECT_EQ(times_told, 2);

  trim_all();
  pool->Allocate(3 * kMiB).value();  // That is more than is kept.
  EXPECT_EQ(times_told, 2);
}

TEST_F(BufferPoolTest, BuffersOutliveThePoolsOwner) {
  const RefPtr<Buffer> buffer = Allocate(kMiB);

  pool_ = nullptr;

  std::memset(buffer->mutable_data(), 1, kMiB);
}

TEST_F(BufferPoolTest, AccountGetsTheBytesThatItCounted) {
  const auto account = MakeRefCounted<ReleasedBytes>();

  pool_->Allocate(1'000'000, account).value();

  EXPECT_EQ(account->released, 1'000'000);
}

TEST_F(BufferPoolTest, FailedAllocationIsResourceExhausted) {
  for (const size_t size : {std::numeric_limits<size_t>::max(),
                            std::numeric_limits<size_t>::max() / 2}) {
    EXPECT_THAT(pool_->Allocate(size),
                StatusIs(absl::StatusCode::kResourceExhausted));
  }
}

TEST_F(BufferPoolTest, ManyThreadsMayUseIt) {
  const auto work = [this](int seed) {
    std::vector<RefPtr<Buffer>> buffers(8);
    for (int i = 0; i < 500; ++i) {
      const size_t size = (64 << 10) * (1 + (seed + i) % 5);
      RefPtr<Buffer>& buffer = buffers[(i * 7 + seed) % 8];
      buffer = Allocate(size);
      *buffer->mutable_data() = static_cast<char>(seed);
    }
    for (const RefPtr<Buffer>& buffer : buffers) {
      EXPECT_EQ(*buffer->data(), static_cast<char>(seed));
    }
  };

  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();

  EXPECT_LE(pool_->idle_bytes(), 8 * kMiB);
}

}  // namespace
}  // namespace tensorkv
