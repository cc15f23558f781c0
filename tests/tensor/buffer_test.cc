#include "tensor/buffer.h"

#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

constexpr size_t kTooLarge = std::numeric_limits<int64_t>::max();

class FakeAccount final : public MemoryAccount {
 public:
  void Release(int64_t bytes) override { released += bytes; }

  int64_t released = 0;
};

TEST(HostBufferTest, ReturnsItsBytesToTheAccountWhenItGoes) {
  const auto account = MakeRefCounted<FakeAccount>();
  ASSERT_OK_AND_ASSIGN(RefPtr<Buffer> buffer,
                       HostBuffer::Allocate(100, account));
  RefPtr<Buffer> reader = buffer;

  buffer = nullptr;
  EXPECT_EQ(account->released, 0);

  reader = nullptr;
  EXPECT_EQ(account->released, 100);
}

TEST(HostBufferTest, ReleasesToTheAccountThatItWasGivenLast) {
  const auto first = MakeRefCounted<FakeAccount>();
  const auto second = MakeRefCounted<FakeAccount>();
  RefPtr<Buffer> buffer = *HostBuffer::Allocate(100, first);

  EXPECT_EQ(buffer->ExchangeAccount(second).get(), first.get());
  EXPECT_EQ(buffer->account(), second.get());
  buffer = nullptr;

  EXPECT_EQ(first->released, 0);
  EXPECT_EQ(second->released, 100);
}

TEST(HostBufferTest, FailedAllocationIsResourceExhausted) {
  EXPECT_THAT(HostBuffer::Allocate(kTooLarge),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("cannot allocate 9223372036854775807 bytes")));
}

TEST(HostBufferTest, FailedAllocationReleasesNothing) {
  const auto account = MakeRefCounted<FakeAccount>();

  ASSERT_FALSE(HostBuffer::Allocate(kTooLarge, account).ok());

  EXPECT_EQ(account->released, 0);
  EXPECT_TRUE(account->IsUnique());
}

TEST(AdoptedBufferTest, PointsAtTheMemoryItWasGiven) {
  const std::string memory = "memory";

  const auto buffer =
      MakeRefCounted<AdoptedBuffer>(memory.data(), memory.size(), [] {});

  EXPECT_EQ(buffer->data(), memory.data());
  EXPECT_EQ(buffer->size_bytes(), memory.size());
}

TEST(AdoptedBufferTest, ReleasesOnceWithTheLastReference) {
  int num_releases = 0;
  RefPtr<Buffer> buffer = MakeRefCounted<AdoptedBuffer>(
      nullptr, 0, [&num_releases] { ++num_releases; });
  RefPtr<Buffer> reader = buffer;

  buffer = nullptr;
  EXPECT_EQ(num_releases, 0);

  reader = nullptr;
  EXPECT_EQ(num_releases, 1);
}

TEST(AdoptedBufferTest, KeepsWhatItsReleaseOwns) {
  auto memory = std::make_shared<std::string>("memory");
  const std::weak_ptr<std::string> watched = memory;
  RefPtr<Buffer> buffer = MakeRefCounted<AdoptedBuffer>(
      memory->data(), memory->size(), [owner = memory] {});
  memory = nullptr;
  EXPECT_FALSE(watched.expired());

  buffer = nullptr;

  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace tensorkv
