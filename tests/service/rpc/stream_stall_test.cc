// Streams whose peers do not read, which takes megabytes to show.

#include "base/mutex.h"
#include "contract/grpc_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/rpc/live_service.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::Full;
using testing::StatusIs;

TEST(StreamStallTest, PeerThatReadsNothingIsCutOff) {
  testing::LiveService service;
  Notification pulled;
  EXPECT_CALL(service.store, Pull)
      .WillOnce([&](PullRequest, CallContext, ReplyCallback<PullReply> done) {
        pulled.Notify();
        std::move(done)(PullReply{{{2, Full({16 << 20}, 1)}}});
      });
  v1::PullStreamRequest request;
  request.mutable_pull()->add_entries()->set_key("k");
  grpc::ClientContext context;
  const auto reader = service.stub().PullStream(&context, request);

  pulled.WaitForNotification();
  while (service.observer.num_handled() == 0) {
    service.alarms.Advance(testing::kTestStreamTimeout);
  }

  EXPECT_EQ(service.observer.WaitForHandled(1)[0].outcome.code,
            absl::StatusCode::kCancelled);
  v1::PullChunk chunk;
  while (reader->Read(&chunk)) {
  }
  EXPECT_THAT(FromGrpcStatus(reader->Finish()),
              StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace tensorkv
