// Streams whose peers do not read, which takes megabytes to show.

#include <thread>

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
  const auto held =
      service.tickets().Add(kAnonymous, PullReply{{{2, Full({16 << 20}, 1)}}});
  v1::PullStreamRequest request;
  request.set_ticket(std::get<PullReply>(**held).ticket->id);
  grpc::ClientContext context;
  const auto reader = service.stub().PullStream(&context, request);

  while (service.open_streams().num_open() == 0) std::this_thread::yield();
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
  EXPECT_EQ(service.tickets().num_open(), 0u);
}

}  // namespace
}  // namespace tensorkv
