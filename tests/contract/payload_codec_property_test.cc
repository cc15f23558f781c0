// The hand-written codec, reader and writer, against the generated code.

#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "contract/message_writer.h"
#include "contract/payload_reader.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"
#include "tests/contract/codec_comparison.h"
#include "tests/contract/encoded_bytes.h"
#include "tests/contract/generated_codec.h"
#include "tests/contract/random_messages.h"
#include "tests/testing/sanitizers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using testing::CodecComparison;
using testing::CompareCodecs;
using testing::MessageKind;
using testing::RandomMessages;

// gRPC's slices have 8 or 64 KiB, and small messages one slice.
constexpr int kChunkSizes[] = {1, 2, 3, 7, 64, 8192, 65'536};

std::string RandomMessage(MessageKind kind, uint64_t seed) {
  RandomMessages random(seed);
  switch (kind) {
    case MessageKind::kInit:
      return random.Draw<v1::InitRequest>().SerializeAsString();
    case MessageKind::kPush:
      return random.Draw<v1::PushRequest>().SerializeAsString();
    case MessageKind::kPushPull:
      return random.Draw<v1::PushPullRequest>().SerializeAsString();
    case MessageKind::kPullReply:
      return random.Draw<v1::PullResponse>().SerializeAsString();
    case MessageKind::kPart: {
      v1::PushChunk chunk;
      *chunk.mutable_part() = random.Draw<v1::Part>();
      return chunk.SerializeAsString();
    }
    case MessageKind::kPushReply:
      return random.Draw<v1::PushResponse>().SerializeAsString();
    case MessageKind::kPull:
      return random.Draw<v1::PullRequest>().SerializeAsString();
    case MessageKind::kPushRows:
      return random.Draw<v1::PushRowsRequest>().SerializeAsString();
    case MessageKind::kPullRows:
      return random.Draw<v1::PullRowsRequest>().SerializeAsString();
    case MessageKind::kSetState:
      return random.Draw<v1::SetStateRequest>().SerializeAsString();
    case MessageKind::kGetState:
      return random.Draw<v1::GetStateRequest>().SerializeAsString();
  }
  return "";
}

class PayloadCodecPropertyTest : public ::testing::TestWithParam<MessageKind> {
};

TEST_P(PayloadCodecPropertyTest, RandomMessagesAreReadAndWritten) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string bytes = RandomMessage(GetParam(), seed);
    for (int chunk_bytes : kChunkSizes) {
      const CodecComparison comparison =
          CompareCodecs(GetParam(), bytes, chunk_bytes);

      ASSERT_EQ(comparison.disagreement, "") << "seed " << seed;
      ASSERT_TRUE(comparison.is_read) << "seed " << seed;
    }
  }
}

TEST_P(PayloadCodecPropertyTest, MessagesCutAtEveryByteAgree) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const std::string bytes = RandomMessage(GetParam(), seed);
    for (size_t size = 0; size < bytes.size(); ++size) {
      ASSERT_EQ(
          CompareCodecs(GetParam(), bytes.substr(0, size), 64).disagreement, "")
          << "seed " << seed << ", " << size << " bytes";
    }
  }
}

TEST_P(PayloadCodecPropertyTest, MessagesWithAWrongByteAgree) {
  std::mt19937_64 random(1);
  int num_read = 0;
  int num_valid_only = 0;
  for (uint64_t seed = 0; seed < testing::FewerIfSanitized(5'000); ++seed) {
    std::string bytes = RandomMessage(GetParam(), seed % 500);
    if (bytes.empty()) continue;
    bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);

    const CodecComparison comparison = CompareCodecs(
        GetParam(), bytes, kChunkSizes[random() % std::size(kChunkSizes)]);

    ASSERT_EQ(comparison.disagreement, "") << "seed " << seed;
    num_read += comparison.is_read;
    num_valid_only += comparison.is_valid && !comparison.is_read;
  }
  // Wrong bytes of every consequence: of payloads, of metadata.
  EXPECT_GT(num_read, 0);
  EXPECT_GT(num_valid_only, 0);
}

INSTANTIATE_TEST_SUITE_P(All, PayloadCodecPropertyTest,
                         ::testing::ValuesIn(testing::kAllMessageKinds));

// --- Streams ----------------------------------------------------------------

// Expects that what the hand-written codec writes of a manifest, or of the
// request of a pull, is what the generated code writes.
template <typename Chunk, typename Proto>
void ExpectManifestsAreWritten() {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Chunk chunk;
    *chunk.mutable_manifest() = RandomMessages(seed).Draw<Proto>();
    const auto manifest = FromProto(Proto(chunk.manifest())).value();

    const EncodedMessage message = std::visit(
        [&](const auto& call) { return EncodeManifest(call, manifest.stripe); },
        manifest.request);

    ASSERT_EQ(testing::BytesOf(message), chunk.SerializeAsString())
        << "seed " << seed;
  }
}

TEST(StreamPropertyTest, ManifestsAreWritten) {
  ExpectManifestsAreWritten<v1::InitChunk, v1::InitManifest>();
  ExpectManifestsAreWritten<v1::PushChunk, v1::PushManifest>();
}

TEST(StreamPropertyTest, ManifestsOfRepliesAreWrittenAndRead) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    v1::PullChunk chunk;
    *chunk.mutable_manifest() = RandomMessages(seed).Draw<v1::PullManifest>();
    const std::string bytes = chunk.manifest().SerializeAsString();
    google::protobuf::io::ArrayInputStream in(bytes.data(),
                                              static_cast<int>(bytes.size()));

    ASSERT_OK_AND_ASSIGN(
        const Decoded<PullReply> decoded,
        ReadCall<PullReply>(&in, bytes.size(), UINT32_MAX, Elements::kLeftOut));

    ASSERT_EQ(testing::BytesOf(EncodePullManifest(decoded.call)),
              chunk.SerializeAsString())
        << "seed " << seed;
  }
}

// --- Every tensor -----------------------------------------------------------

class TensorPropertyTest : public ::testing::TestWithParam<DType> {};

Tensor TensorOf(DType dtype, int rank, int64_t dimension) {
  const std::vector<int64_t> dimensions(rank, dimension);
  return Tensor::Filled(dtype, *Shape::Create(dimensions), 1).value();
}

TEST_P(TensorPropertyTest, OfEveryRankIsReadAndWritten) {
  PushRequest request;
  for (int rank = 0; rank <= Shape::kMaxRank; ++rank) {
    for (int64_t dimension = 0; dimension <= 2; ++dimension) {
      request.entries.push_back(
          {.key = "w", .tensor = TensorOf(GetParam(), rank, dimension)});
    }
  }
  v1::PushRequest proto;
  ToProto(request, &proto);

  const CodecComparison comparison = CompareCodecs(
      MessageKind::kPush, proto.SerializeAsString(), /*chunk_bytes=*/100);

  EXPECT_EQ(comparison.disagreement, "");
  EXPECT_TRUE(comparison.is_read);
}

INSTANTIATE_TEST_SUITE_P(All, TensorPropertyTest,
                         ::testing::ValuesIn(kAllDTypes));

// Above and below the size from which payloads are referenced.
TEST(PayloadCodecPropertyTest, TensorsOfAnySizeAreReadAndWritten) {
  PullReply reply;
  for (int64_t size : {2047, 2048, 2049, 8192, 65'536, 1'000'000}) {
    reply.values.push_back({1, TensorOf(DType::kU8, 1, size)});
  }
  v1::PullResponse proto;
  ToProto(reply, &proto);

  const CodecComparison comparison =
      CompareCodecs(MessageKind::kPullReply, proto.SerializeAsString(), 8192);

  EXPECT_EQ(comparison.disagreement, "");
  EXPECT_TRUE(comparison.is_read);
}

// What comes before the elements is read once for tensors of one type that
// follow one another, and entries of the usual form are read at once.
class RunOfEntriesTest : public ::testing::TestWithParam<MessageKind> {
 protected:
  static std::string Message() {
    PushRequest push;
    PullReply reply;
    PullRequest pull;
    for (const char* key : {"a", "b", "c", "d"}) {
      const Tensor tensor = TensorOf(DType::kF32, 2, 2);
      push.entries.push_back({.key = key, .tensor = tensor});
      reply.values.push_back({reply.values.size() * 300 + 1, tensor});
      pull.entries.push_back({.key = key});
    }
    if (GetParam() == MessageKind::kPush) return Bytes<v1::PushRequest>(push);
    if (GetParam() == MessageKind::kPull) return Bytes<v1::PullRequest>(pull);
    return Bytes<v1::PullResponse>(reply);
  }

 private:
  template <typename Proto, typename Value>
  static std::string Bytes(const Value& value) {
    Proto proto;
    ToProto(value, &proto);
    return proto.SerializeAsString();
  }
};

TEST_P(RunOfEntriesTest, AgreesWithAnyBitWrong) {
  const std::string right = Message();

  for (size_t bit = 0; bit < 8 * right.size(); ++bit) {
    std::string bytes = right;
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    for (int chunk_bytes : {1, 20, 64, 8192}) {
      ASSERT_EQ(CompareCodecs(GetParam(), bytes, chunk_bytes).disagreement, "")
          << "bit " << bit << ", chunks of " << chunk_bytes;
    }
  }
  EXPECT_TRUE(CompareCodecs(GetParam(), right, 64).is_read);
}

INSTANTIATE_TEST_SUITE_P(All, RunOfEntriesTest,
                         ::testing::Values(MessageKind::kPush,
                                           MessageKind::kPullReply,
                                           MessageKind::kPull));

}  // namespace
}  // namespace tensorkv
