#include "service/rpc/message_limits.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorkv/v1/service.pb.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace message_limits_test {

using ::testing::HasSubstr;
using testing::StatusIs;

constexpr MessageLimits kLimits = {.max_entries = 1000};

absl::Status Check(const std::string& bytes,
                   const google::protobuf::Descriptor& type) {
  const grpc::Slice slice(bytes);
  return CheckStructure(grpc::ByteBuffer(&slice, 1), type, kLimits);
}

absl::Status CheckPush(const std::string& bytes) {
  return Check(bytes, *v1::PushRequest::descriptor());
}

std::string Repeated(const std::string& bytes, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += bytes;
  return all;
}

// A push of `num_entries` entries with everything an entry can have.
v1::PushRequest FullPush(int num_entries) {
  v1::PushRequest push;
  push.set_namespace_("n");
  push.mutable_call_id()->set_client_id("client");
  push.mutable_worker()->set_epoch(~uint64_t{0});
  for (int i = 0; i < num_entries; ++i) {
    v1::PushEntry& entry = *push.add_entries();
    entry.set_key(std::string(1024, 'k'));
    entry.set_skip(true);
    entry.mutable_encoding()->mutable_top_k()->set_count(~uint64_t{0});
    entry.mutable_tensor()->set_dtype(v1::DTYPE_F32);
    for (int d = 0; d < 8; ++d) entry.mutable_tensor()->add_shape(-1);
    entry.mutable_tensor()->set_data("data");
  }
  return push;
}

bool HasManyFields(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return HasMoreFieldsThan(/*max_fields=*/1000, grpc::ByteBuffer(&slice, 1));
}

// Beside its entries FullPush has three fields.
TEST(MessageLimitsTest, FieldsAreCountedOneLevelDeep) {
  EXPECT_FALSE(HasManyFields(v1::PushRequest()));
  EXPECT_FALSE(HasManyFields(FullPush(997)));
  EXPECT_TRUE(HasManyFields(FullPush(998)));
}

TEST(MessageLimitsTest, FieldsOfAPushPullAreThoseOfItsPush) {
  v1::PushPullRequest request;
  request.set_max_reply_bytes(4 << 20);
  *request.mutable_push() = FullPush(995);
  EXPECT_FALSE(HasManyFields(request));

  *request.mutable_push() = FullPush(998);
  EXPECT_TRUE(HasManyFields(request));
}

TEST(MessageLimitsTest, WhatIsNoMessageHasFewFields) {
  for (const char* bytes : {"\xff", "\x0a\xff", "\x0a\x7f", "\x08"}) {
    const grpc::Slice slice(bytes);
    EXPECT_FALSE(HasMoreFieldsThan(1, grpc::ByteBuffer(&slice, 1))) << bytes;
  }
}

TEST(MessageLimitsTest, PayloadCountsNothing) {
  v1::PushRequest push = FullPush(1);
  push.mutable_entries(0)->mutable_tensor()->set_data(
      std::string(16 << 20, '\x0A'));

  EXPECT_OK(CheckPush(push.SerializeAsString()));
}

TEST(MessageLimitsTest, ManyEmptyEntriesAreTooMuch) {
  const std::string empty_entry("\x7A\x00", 2);

  EXPECT_THAT(CheckPush(Repeated(empty_entry, 40'000)),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("PushRequest: more fields than a call of 1000 "
                                 "entries may have")));
}

TEST(MessageLimitsTest, ManyPackedNumbersAreTooMuch) {
  v1::PushRequest push;
  for (int i = 0; i < 300'000; ++i) {
    if (i == 0) push.add_entries();
    push.mutable_entries(0)->mutable_tensor()->add_shape(1);
  }

  EXPECT_THAT(CheckPush(push.SerializeAsString()),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(MessageLimitsTest, ManyMapEntriesAreTooMuch) {
  const std::string empty_pair("\x1A\x00", 2);

  EXPECT_THAT(Check(Repeated(empty_pair, 40'000),
                    *v1::SetHyperparametersRequest::descriptor()),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(MessageLimitsTest, ManyUnknownFieldsAreTooMuch) {
  const std::string unknown_varint("\xA0\x06\x00", 3);  // field 100

  EXPECT_THAT(CheckPush(Repeated(unknown_varint, 40'000)),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(MessageLimitsTest, UnknownFieldsOfNewerClientsAreFine) {
  EXPECT_OK(CheckPush(std::string("\xA0\x06\x05\xA2\x06\x02hi", 8)));
}

class MalformedMessageTest : public ::testing::TestWithParam<std::string> {};

TEST_P(MalformedMessageTest, IsInvalid) {
  EXPECT_THAT(CheckPush(GetParam()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("malformed PushRequest")));
}

INSTANTIATE_TEST_SUITE_P(
    Bytes, MalformedMessageTest,
    ::testing::Values(std::string("\xFF\xFF\xFF", 3),          // endless tag
                      std::string("\x0A\x05hi", 4),            // cut string
                      std::string("\x7A\x05\x0A\x01k", 5),     // cut entry
                      std::string("\x7A\x02\x0A\x09long", 8),  // beyond entry
                      std::string("\x0A\xFF\xFF\xFF\xFF\x7F", 6),  // 2 GiB
                      std::string("\x0B\x0C", 2),                  // group
                      std::string("\x0C", 1),            // group's end
                      std::string("\x0E\x00", 2),        // wire type 6
                      std::string("\x00\x00", 2),        // field 0
                      std::string("\x25\x00\x00", 3)));  // cut fixed32

}  // namespace message_limits_test
}  // namespace tensorkv
