#include "service/rpc/reply_messages.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "contract/stream_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorkv/v1/data.pb.h"
#include "tensorkv/v1/stream.pb.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace reply_messages_test {

using testing::Full;
using testing::StatusIs;

constexpr MessageLimits kLimits = {.max_message_bytes = 4096,
                                   .max_entries = 1000};

StripedCall::Reply Shared(StreamedReply reply) {
  return std::make_shared<const StreamedReply>(std::move(reply));
}

template <typename Message>
Message Parsed(const grpc::ByteBuffer& bytes) {
  grpc::Slice slice;
  EXPECT_TRUE(bytes.DumpToSingleSlice(&slice).ok());
  Message message;
  EXPECT_TRUE(message.ParseFromArray(slice.begin(), slice.size()));
  return message;
}

// All messages to one stripe, as a client sees them.
std::vector<v1::PullChunk> ChunksOf(const StripedCall::Reply& reply,
                                    const ReplyForm& form) {
  auto messages = ReplyMessages::Create(reply, form, kLimits);
  EXPECT_OK(messages);
  std::vector<v1::PullChunk> chunks;
  while (!messages->is_done()) {
    chunks.push_back(Parsed<v1::PullChunk>(messages->Next()));
  }
  return chunks;
}

TEST(ReplyMessagesTest, PushIsAnsweredWithOneMessage) {
  ASSERT_OK_AND_ASSIGN(
      auto messages,
      ReplyMessages::Create(Shared(PushReply{{{.version = 4}}}), {}, kLimits));

  ASSERT_FALSE(messages.is_done());
  EXPECT_EQ(Parsed<v1::PushResponse>(messages.Next()).results(0).version(), 4u);
  EXPECT_TRUE(messages.is_done());
}

TEST(ReplyMessagesTest, PullIsAnsweredWithAManifestAndParts) {
  const auto reply =
      Shared(PullReply{{{.version = 2, .tensor = Full({3}, 1)},
                        {.version = 3, .tensor = Full({0}, 1)},
                        {.version = 5, .tensor = Full({2}, 7)}}});

  const auto chunks = ChunksOf(reply, {});

  ASSERT_EQ(chunks.size(), 2u);
  ASSERT_EQ(chunks[0].manifest().values_size(), 3);
  EXPECT_EQ(chunks[0].manifest().values(2).version(), 5u);
  EXPECT_FALSE(chunks[0].manifest().values(0).tensor().has_data());
  EXPECT_EQ(chunks[1].part().entry(), 0u);
  EXPECT_EQ(chunks[1].part().data().size(), 12u + 8u);
  float seven = 0;
  std::memcpy(&seven, chunks[1].part().data().data() + 12, sizeof(seven));
  EXPECT_EQ(seven, 7);
}

TEST(ReplyMessagesTest, StripesCarryDisjointRangesOfAllBytes) {
  const auto reply =
      Shared(PullReply{{{1, Full({1000}, 1)}, {1, Full({500}, 2)}}});

  uint64_t bytes = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    for (const v1::PullChunk& chunk : ChunksOf(reply, {{i, 3}, 1024})) {
      EXPECT_LE(chunk.part().data().size(), 1024u);
      bytes += chunk.part().data().size();
    }
  }

  EXPECT_EQ(bytes, 6000u);
}

TEST(ReplyMessagesTest, PartsAreAsLongAsAskedForButNotTiny) {
  const auto reply = Shared(PullReply{{{1, Full({600}, 1)}}});

  EXPECT_EQ(ChunksOf(reply, {{}, 2000})[1].part().data().size(), 2000u);
  EXPECT_EQ(ChunksOf(reply, {{}, 1})[1].part().data().size(), 1024u);
}

TEST(ReplyMessagesTest, PartsStayBelowTheMessageLimit) {
  const auto reply = Shared(PullReply{{{1, Full({10000}, 1)}}});

  for (const uint64_t max_part_bytes : {uint64_t{0}, uint64_t{1} << 40}) {
    for (const v1::PullChunk& chunk : ChunksOf(reply, {{}, max_part_bytes})) {
      EXPECT_LE(chunk.ByteSizeLong(), kLimits.max_message_bytes);
    }
  }
}

PullReply SmallValues(int64_t num_values) {
  PullReply pull;
  for (int64_t i = 0; i < num_values; ++i) {
    pull.values.push_back({static_cast<Version>(i), Full({i * 37 % 150}, i)});
  }
  return pull;
}

// The elements that parts bring together, which must follow one another.
std::string Joined(const std::vector<v1::PullChunk>& chunks,
                   const PullReply& pull) {
  std::string joined;
  for (const v1::PullChunk& chunk : chunks) {
    uint64_t begin = chunk.part().offset();
    for (uint32_t i = 0; i < chunk.part().entry(); ++i) {
      begin += pull.values[i].tensor.size_bytes();
    }
    EXPECT_TRUE(chunk.part().data().empty() || begin == joined.size());
    joined += chunk.part().data();
  }
  return joined;
}

TEST(ReplyMessagesTest, SmallValuesOfATicketComeTogether) {
  PullReply pull = SmallValues(100);
  pull.ticket = Ticket{"t", 5};
  std::string expected;
  for (const Value& value : pull.values) {
    expected += testing::BytesOf(value.tensor);
  }

  for (uint64_t max_part_bytes = 1024; max_part_bytes < 5000;
       max_part_bytes += 7) {
    const auto chunks = ChunksOf(Shared(pull), {{}, max_part_bytes});
    EXPECT_EQ(
        chunks.size(),
        (expected.size() - 1) /
                std::min<uint64_t>(max_part_bytes, kLimits.max_message_bytes -
                                                       kPartOverheadBytes) +
            1);
    EXPECT_EQ(Joined(chunks, pull), expected);
    for (const v1::PullChunk& chunk : chunks) {
      EXPECT_LE(chunk.part().data().size(), max_part_bytes);
      EXPECT_LE(chunk.ByteSizeLong(), kLimits.max_message_bytes);
    }
  }
}

TEST(ReplyMessagesTest, LargeValuesGoInPartsOfTheirOwn) {
  constexpr MessageLimits kRoomy = {};
  PullReply pull = {.ticket = Ticket{"t", 5}};
  pull.values.resize(3, {1, Full({1 << 18}, 1)});

  ASSERT_OK_AND_ASSIGN(ReplyMessages messages,
                       ReplyMessages::Create(Shared(pull), {}, kRoomy));

  for (uint32_t i = 0; i < 3; ++i) {
    const auto chunk = Parsed<v1::PullChunk>(messages.Next());
    EXPECT_EQ(chunk.part().entry(), i);
    EXPECT_EQ(chunk.part().data().size(), 1u << 20);
  }
  EXPECT_TRUE(messages.is_done());
}

TEST(ReplyMessagesTest, StripeWithoutBytesHasAnEmptyPart) {
  const PullReply pull = {.values = {{1, Full({1}, 1)}},
                          .ticket = Ticket{"t", 4}};
  ASSERT_OK_AND_ASSIGN(
      ReplyMessages messages,
      ReplyMessages::Create(Shared(pull), {{.index = 1, .count = 2}}, kLimits));

  EXPECT_EQ(Parsed<v1::PullChunk>(messages.Next()).part().data(), "");
  EXPECT_TRUE(messages.is_done());
}

TEST(ReplyMessagesTest, ReadOfNothingHasAnEmptyManifest) {
  const auto chunks = ChunksOf(Shared(PullReply()), {});

  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_TRUE(chunks[0].has_manifest());
}

TEST(ReplyMessagesTest, ManifestOverTheLimitIsRefused) {
  PullReply pull;
  pull.values.resize(1000, {.version = 1, .tensor = Full({1}, 1)});

  EXPECT_THAT(ReplyMessages::Create(Shared(std::move(pull)), {}, kLimits),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace reply_messages_test
}  // namespace tensorkv
