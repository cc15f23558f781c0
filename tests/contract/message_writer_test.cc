#include "contract/message_writer.h"

#include <optional>
#include <string>

#include "contract/wire_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/contract/encoded_bytes.h"
#include "tests/contract/generated_codec.h"

namespace tensorkv {
namespace {

using testing::BytesOf;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kLarge = wire::kMaxCopiedBytes + 1;

Tensor TensorOf(int64_t size_bytes) {
  return Tensor::Filled(DType::kU8, {size_bytes}, 'x').value();
}

template <typename Proto, typename Value>
std::string Generated(const Value& value) {
  Proto proto;
  ToProto(value, &proto);
  return proto.SerializeAsString();
}

// What is written is compared with the generated code in
// payload_codec_property_test.cc.

TEST(MessageWriterTest, NoValueTakesMoreThanItsBound) {
  const Shape shape =
      Shape::Create({0, 256, 256, 256, 256, 256, 256, 256}).value();
  auto change = MakeRefCounted<ValueChange>();
  change->token = std::string(64, 't');
  change->unchanged = true;
  change->delta = Delta{.digest = UINT64_MAX};
  const PullReply reply = {
      .values = {{UINT64_MAX, *Tensor::WithoutData(DType::kBool, shape),
                  UINT32_MAX, std::move(change)}}};

  EXPECT_LE(EncodePullReply(reply).size_bytes(), kMaxValueOverheadBytes);
}

TEST(MessageWriterTest, WritesDefaults) {
  EXPECT_EQ(BytesOf(EncodeRequest(InitRequest())),
            Generated<v1::InitRequest>(InitRequest()));
  EXPECT_THAT(EncodeRequest(PushRequest()).pieces(), IsEmpty());
  EXPECT_EQ(BytesOf(EncodeRequest(PushPullRequest())),
            std::string("\x7a\0", 2));
  EXPECT_THAT(EncodePullReply({}).pieces(), IsEmpty());
}

TEST(MessageWriterTest, RepliesOfPullAndPushPullAreTheSameBytes) {
  const PullReply reply = {.values = {{7, TensorOf(kLarge)}}};

  EXPECT_EQ(BytesOf(EncodePullReply(reply)),
            Generated<v1::PushPullResponse>(reply));
}

// --- Pieces -----------------------------------------------------------------

TEST(MessageWriterTest, SmallTensorsTakeOnePieceTogether) {
  PullReply reply;
  reply.values.resize(1000, {1, TensorOf(wire::kMaxCopiedBytes)});

  const EncodedMessage message = EncodePullReply(reply);

  EXPECT_THAT(message.pieces(), SizeIs(1));
  EXPECT_EQ(message.size_bytes(), message.pieces()[0].size_bytes);
}

TEST(MessageWriterTest, LargeTensorsAreReferenced) {
  const PullReply reply = {.values = {{1, TensorOf(kLarge)},
                                      {2, TensorOf(5)},
                                      {3, TensorOf(kLarge)}}};

  const EncodedMessage message = EncodePullReply(reply);

  ASSERT_THAT(message.pieces(), SizeIs(4));
  EXPECT_EQ(message.pieces()[1].data, reply.values[0].tensor.data());
  EXPECT_EQ(message.pieces()[3].data, reply.values[2].tensor.data());
  EXPECT_EQ(message.pieces()[0].buffer, message.pieces()[2].buffer);
}

TEST(MessageWriterTest, MessageKeepsItsTensorsAlive) {
  std::optional<PullReply> reply = PullReply{.values = {{1, TensorOf(kLarge)}}};
  const std::string expected = Generated<v1::PullResponse>(*reply);

  const EncodedMessage message = EncodePullReply(*reply);
  reply = std::nullopt;

  EXPECT_EQ(BytesOf(message), expected);
}

TEST(MessageWriterTest, TensorWithinABufferIsReferencedThere) {
  const Tensor whole = TensorOf(3 * kLarge);
  Tensor part = Tensor::WithoutData(DType::kU8, {kLarge}).value();
  part.SetBuffer(whole.buffer(), 100);

  const EncodedMessage message = EncodePullReply({.values = {{1, part}}});

  ASSERT_THAT(message.pieces(), SizeIs(2));
  EXPECT_EQ(message.pieces()[1].data, whole.data() + 100);
  EXPECT_EQ(message.pieces()[1].size_bytes, kLarge);
}

}  // namespace
}  // namespace tensorkv
