#include "service/rpc/incarnation.h"

#include <utility>

#include "contract/grpc_status.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/rpc/live_service.h"

namespace tensorkv {
namespace {

using testing::AnswerWith;
using ::testing::HasSubstr;

class IncarnationTest : public ::testing::Test {
 protected:
  testing::LiveService service_;
};

TEST_F(IncarnationTest, ReplyNamesTheIncarnation) {
  EXPECT_CALL(service_.store, Push)
      .WillOnce(AnswerWith<PushReply>(PushReply{}));
  grpc::ClientContext context;
  v1::PushResponse reply;

  ASSERT_TRUE(service_.stub().Push(&context, {}, &reply).ok());

  const auto& metadata = context.GetServerInitialMetadata();
  ASSERT_EQ(metadata.count("tensorkv-incarnation"), 1u);
  EXPECT_EQ(metadata.find("tensorkv-incarnation")->second, "00000000000000a7");
}

TEST_F(IncarnationTest, CallThatExpectsThisIncarnationIsMade) {
  EXPECT_CALL(service_.store, Push)
      .WillRepeatedly(AnswerWith<PushReply>(PushReply{}));
  for (const char* incarnation : {"00000000000000a7", "00000000000000A7"}) {
    grpc::ClientContext context;
    context.AddMetadata("tensorkv-incarnation", incarnation);
    v1::PushResponse reply;

    EXPECT_TRUE(service_.stub().Push(&context, {}, &reply).ok());
  }
}

// The store may remember what the other incarnation answered.
TEST_F(IncarnationTest, CallThatExpectsAnotherIncarnationSaysSo) {
  EXPECT_CALL(service_.store, Push)
      .WillOnce(
          [](PushRequest, CallContext context, ReplyCallback<PushReply> done) {
            std::move(done)(context.caller.unless_remembered);
          });
  grpc::ClientContext context;
  context.AddMetadata("tensorkv-incarnation", "0000000000000008");
  v1::PushResponse reply;

  const grpc::Status status = service_.stub().Push(&context, {}, &reply);

  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(),
              HasSubstr("expected incarnation 0000000000000008, got "
                        "00000000000000a7"));
  EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kServerRestarted);
}

TEST_F(IncarnationTest, StreamThatExpectsAnotherIncarnationIsNotMade) {
  EXPECT_CALL(service_.store, Pull).Times(0);
  grpc::ClientContext context;
  context.AddMetadata("tensorkv-incarnation", "0000000000000008");
  const auto stream = service_.stub().PullStream(&context, {});

  const grpc::Status status = stream->Finish();

  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(IncarnationTest, IncarnationThatIsNoneIsInvalid) {
  grpc::ClientContext context;
  context.AddMetadata("tensorkv-incarnation", "seven");
  v1::PushResponse reply;

  EXPECT_EQ(service_.stub().Push(&context, {}, &reply).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tensorkv
