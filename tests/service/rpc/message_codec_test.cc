#include "service/rpc/message_codec.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorkv/v1/service.pb.h"
#include "tests/contract/generated_codec.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StatusIs;
using testing::Vector;

constexpr MessageLimits kLimits = {.max_message_bytes = 1024, .max_entries = 3};

grpc::ByteBuffer BytesOf(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

std::string TextOf(const grpc::ByteBuffer& bytes) {
  grpc::Slice slice;
  EXPECT_TRUE(bytes.DumpToSingleSlice(&slice).ok());
  return std::string(slice.begin(), slice.end());
}

v1::PushRequest PushOf(int num_entries) {
  v1::PushRequest push;
  for (int i = 0; i < num_entries; ++i) {
    push.add_entries()->set_key("k");
    ToProto(Vector({1, 2}), push.mutable_entries(i)->mutable_tensor());
  }
  return push;
}

TEST(DecodeTest, GivesTheRequestAndWhereItsElementsAre) {
  grpc::ByteBuffer bytes = BytesOf(PushOf(2).SerializeAsString());

  ASSERT_OK_AND_ASSIGN(const Decoded<PushRequest> push,
                       ReadAnyForm<PushRequest>(&bytes, kLimits));

  ASSERT_EQ(push.call.entries.size(), 2u);
  EXPECT_EQ(push.call.entries[1].key, "k");
  EXPECT_EQ(push.payloads[1].size_bytes, 8u);
}

TEST(DecodeTest, AnUnusualFormIsReplacedByTheUsualOne) {
  v1::PushRequest step;
  step.set_step(5);
  const std::string usual = [&] {
    v1::PushRequest push = PushOf(1);
    push.set_step(5);
    return push.SerializeAsString();
  }();
  grpc::ByteBuffer bytes =
      BytesOf(PushOf(1).SerializeAsString() + step.SerializeAsString());

  ASSERT_OK_AND_ASSIGN(const Decoded<PushRequest> push,
                       ReadAnyForm<PushRequest>(&bytes, kLimits));

  EXPECT_EQ(push.call.step, 5u);
  EXPECT_EQ(TextOf(bytes), usual);
}

TEST(DecodeTest, BytesThatAreNoMessageAreInvalid) {
  grpc::ByteBuffer bytes = BytesOf("\xFF\xFF\xFF");

  EXPECT_THAT(ReadAnyForm<PushRequest>(&bytes, kLimits),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("malformed PushRequest")));
}

TEST(DecodeTest, StringsThatAreNotUtf8AreInvalid) {
  v1::StatRequest stat;
  stat.add_keys("\xFF");
  grpc::ByteBuffer bytes = BytesOf(stat.SerializePartialAsString());

  EXPECT_THAT(
      Parse(&bytes, kLimits, &stat),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not UTF-8")));
}

TEST(DecodeTest, ErrorsOfTheContractPassThrough) {
  v1::PushRequest push = PushOf(1);
  push.mutable_entries(0)->mutable_tensor()->set_dtype(v1::DTYPE_UNSPECIFIED);
  grpc::ByteBuffer bytes = BytesOf(push.SerializeAsString());

  EXPECT_THAT(ReadAnyForm<PushRequest>(&bytes, kLimits),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"k\"")));
}

TEST(DecodeTest, TooManyEntriesAreTooMuch) {
  grpc::ByteBuffer bytes = BytesOf(PushOf(4).SerializeAsString());

  EXPECT_THAT(
      ReadAnyForm<PushRequest>(&bytes, kLimits),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("PushRequest: expected at most 3 entries, got 4")));
}

TEST(DecodeTest, TooManyEntriesInsideAPushPullAreTooMuch) {
  v1::PushPullRequest request;
  *request.mutable_push() = PushOf(4);
  grpc::ByteBuffer bytes = BytesOf(request.SerializeAsString());

  EXPECT_THAT(ReadAnyForm<PushPullRequest>(&bytes, kLimits),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(DecodeTest, TooManyKeysAreTooMuch) {
  v1::DeleteRequest request;
  for (int i = 0; i < 4; ++i) request.add_keys("k");
  grpc::ByteBuffer bytes = BytesOf(request.SerializeAsString());

  EXPECT_THAT(
      Parse(&bytes, kLimits, &request),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("3 keys")));
}

TEST(EncodeValuesTest, WritesTheMessage) {
  const PullReply reply = {.values = {{.version = 3, .tensor = Vector({5})}}};

  ASSERT_OK_AND_ASSIGN(const grpc::ByteBuffer bytes,
                       EncodeValues(reply, kLimits));

  v1::PullResponse message;
  ASSERT_TRUE(message.ParseFromString(TextOf(bytes)));
  EXPECT_EQ(message.values(0).version(), 3u);
  EXPECT_EQ(message.values(0).tensor().data().size(), 4u);
}

TEST(EncodeValuesTest, ReplyWithTooMuchPayloadIsTooMuch) {
  const PullReply reply = {.values = {{.tensor = testing::Full({200}, 1)},
                                      {.tensor = testing::Full({57}, 1)}}};

  EXPECT_THAT(EncodeValues(reply, kLimits),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("the reply takes 1057 bytes"),
                             HasSubstr("limit of a message is 1024"))));
}

TEST(EncodeValuesTest, ReplyOverTheLimitByItsMetadataIsTooMuch) {
  const PullReply reply = {.values = {{.tensor = testing::Full({256}, 1)}}};

  EXPECT_THAT(EncodeValues(reply, kLimits),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(EncodeTest, ReplyWithoutTensorsIsBoundedToo) {
  ListReply reply;
  reply.set_next_page_token(std::string(1025, 't'));

  EXPECT_THAT(Encode<v1::ListResponse>(reply, kLimits),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(EncodeTest, ReplyAtTheLimitPasses) {
  ListReply reply;
  reply.set_next_page_token(std::string(1024 - 3, 't'));  // tag, two of length

  ASSERT_OK_AND_ASSIGN(const grpc::ByteBuffer bytes,
                       Encode<v1::ListResponse>(reply, kLimits));

  EXPECT_EQ(bytes.Length(), 1024u);
}

}  // namespace
}  // namespace tensorkv
