#include "client/internal/transfer/message_bytes.h"

#include <string>

#include "gmock/gmock.h"
#include "grpcpp/support/slice.h"
#include "gtest/gtest.h"
#include "tensorkv/v1/data.pb.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

TEST(MessageBytesTest, MessageOverTheLimitIsResourceExhausted) {
  v1::DeleteRequest request;
  request.add_keys("12345678");

  EXPECT_THAT(Serialize(request, 9),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("message of 10 bytes: expected at most 9")));
  EXPECT_OK(Serialize(request, 10));
}

TEST(MessageBytesTest, BytesThatAreNoMessageAreInternal) {
  const grpc::Slice slice(std::string("\xff\xff"));
  grpc::ByteBuffer bytes(&slice, 1);
  v1::InitResponse response;

  EXPECT_THAT(Parse(&bytes, &response),
              StatusIs(absl::StatusCode::kInternal,
                       "malformed reply: not a InitResponse"));
}

TEST(MessageBytesTest, ReplyThatIsRefusedIsTheServersFault) {
  EXPECT_THAT(CheckReply<int>(absl::InvalidArgumentError("dtype")),
              StatusIs(absl::StatusCode::kInternal, "malformed reply: dtype"));
}

}  // namespace
}  // namespace tensorkv
