#include "service/rpc/stream_call.h"

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "contract/grpc_status.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "grpcpp/support/server_interceptor.h"
#include "gtest/gtest.h"
#include "tests/contract/generated_codec.h"
#include "tests/service/rpc/live_service.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::BytesOf;
using ::testing::HasSubstr;
using testing::StatusIs;
using testing::Vector;

v1::PushChunk Manifest(const Tensor& tensor, Stripe stripe = {}) {
  PushManifest manifest = {
      .request = PushRequest{.entries = {{.key = "k", .tensor = tensor}}},
      .stripe = stripe};
  v1::PushChunk chunk;
  ToProto(manifest, chunk.mutable_manifest());
  return chunk;
}

v1::PushChunk Part(const Tensor& tensor) {
  v1::PushChunk chunk;
  chunk.mutable_part()->set_data(BytesOf(tensor));
  return chunk;
}

class StreamCallTest : public ::testing::Test {
 protected:
  using PushWriter = std::unique_ptr<grpc::ClientWriter<v1::PushChunk>>;

  PushWriter OpenPush() {
    return service_.stub().PushStream(&context_, &reply_);
  }

  static absl::Status Finish(PushWriter& writer) {
    return FromGrpcStatus(writer->Finish());
  }

  // Lets the time pass in which a stream must have moved.
  void PassTimeouts(int count) {
    for (int i = 0; i < count; ++i) {
      service_.alarms.Advance(testing::kTestStreamTimeout);
    }
  }

  void WaitForStreams(uint32_t count) {
    while (service_.open_streams().num_open() != count) {
      std::this_thread::yield();
    }
  }

  testing::LiveService service_;
  grpc::ClientContext context_;
  v1::PushResponse reply_;
};

TEST_F(StreamCallTest, PushStreamReachesTheStoreAndItsAnswerTheClient) {
  const Tensor tensor = Vector({1, 2, 3});
  EXPECT_CALL(service_.store, Push)
      .WillOnce([](PushRequest request, CallContext,
                   ReplyCallback<PushReply> done) {
        EXPECT_THAT(request.entries[0].tensor, testing::HasElements({1, 2, 3}));
        std::move(done)(PushReply{{{.version = 4}}});
      });
  PushWriter writer = OpenPush();

  EXPECT_TRUE(writer->Write(Manifest(tensor)));
  EXPECT_TRUE(writer->Write(Part(tensor)));
  EXPECT_TRUE(writer->WritesDone());

  ASSERT_OK(Finish(writer));
  EXPECT_EQ(reply_.results(0).version(), 4u);
  const auto calls = service_.observer.WaitForHandled(1);
  EXPECT_EQ(calls[0].method, Method::kPushStream);
  EXPECT_GT(calls[0].outcome.request_bytes, 12u);
}

// One place: a second stream waits for the first, and a third for both, without
// memory; one that is given up leaves its place to the next.
TEST(UploadsTest, StreamsWaitForTheirTurnBeforeTheyTakeMemory) {
  testing::LiveService service({}, /*max_uploads=*/1);
  EXPECT_CALL(service.store, Push)
      .WillRepeatedly(
          [](PushRequest, CallContext, ReplyCallback<PushReply> done) {
            std::move(done)(PushReply{{{.version = 1}}});
          });
  const Tensor tensor = Vector({1, 2, 3});
  grpc::ClientContext contexts[3];
  v1::PushResponse replies[3];
  std::unique_ptr<grpc::ClientWriter<v1::PushChunk>> writers[3];
  for (int i = 0; i < 3; ++i) {
    writers[i] = service.stub().PushStream(&contexts[i], &replies[i]);
    EXPECT_TRUE(writers[i]->Write(Manifest(tensor)));
    while (service.staging.num_allocate_calls() == 0 ||
           service.num_uploads_waiting() != static_cast<size_t>(i)) {
      std::this_thread::yield();
    }
  }

  contexts[1].TryCancel();
  EXPECT_THAT(FromGrpcStatus(writers[1]->Finish()),
              StatusIs(absl::StatusCode::kCancelled));
  service.observer.WaitForHandled(1);
  EXPECT_EQ(service.staging.num_allocate_calls(), 1);
  EXPECT_EQ(service.num_uploads_waiting(), 1u);
  for (const int i : {0, 2}) {
    EXPECT_TRUE(writers[i]->Write(Part(tensor)));
    EXPECT_TRUE(writers[i]->WritesDone());
    EXPECT_OK(FromGrpcStatus(writers[i]->Finish()));
  }

  EXPECT_EQ(service.staging.num_allocate_calls(), 2);
  EXPECT_EQ(service.num_uploads_waiting(), 0u);
}

TEST_F(StreamCallTest, WrongPartEndsTheStream) {
  PushWriter writer = OpenPush();
  writer->Write(Manifest(Vector({1, 2})));
  writer->Write(Part(Vector({1, 2, 3})));

  EXPECT_THAT(Finish(writer), StatusIs(absl::StatusCode::kInvalidArgument));
  service_.observer.WaitForHandled(1);
}

TEST_F(StreamCallTest, StreamThatIsCancelledHasNoEffect) {
  EXPECT_CALL(service_.store, Push).Times(0);
  PushWriter writer = OpenPush();
  writer->Write(Manifest(Vector({1, 2})));
  writer->Write(Part(Vector({1, 2})));

  context_.TryCancel();

  EXPECT_THAT(Finish(writer), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(service_.observer.WaitForHandled(1)[0].outcome.code,
            absl::StatusCode::kCancelled);
  WaitForStreams(0);
}

TEST_F(StreamCallTest, PeerThatSendsNothingIsCutOff) {
  PushWriter writer = OpenPush();
  writer->Write(Manifest(Vector({1, 2})));
  while (service_.observer.num_handled() == 0) PassTimeouts(1);

  EXPECT_THAT(Finish(writer), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                       HasSubstr("within 10s")));
  WaitForStreams(0);
}

TEST_F(StreamCallTest, CallThatWaitsIsNotCutOff) {
  ReplyCallback<PushReply> done;
  Notification held;
  EXPECT_CALL(service_.store, Push)
      .WillOnce([&](PushRequest, CallContext, ReplyCallback<PushReply> push) {
        done = std::move(push);
        held.Notify();
      });
  PushWriter writer = OpenPush();
  EXPECT_TRUE(writer->Write(Manifest(Vector({1}))));
  EXPECT_TRUE(writer->Write(Part(Vector({1}))));
  EXPECT_TRUE(writer->WritesDone());
  held.WaitForNotification();

  PassTimeouts(5);
  std::move(done)(PushReply{{{.version = 4}}});

  EXPECT_OK(Finish(writer));
}

TEST_F(StreamCallTest, TicketBringsTheValuesThatTheReplyLeavesOut) {
  EXPECT_CALL(service_.store, Pull)
      .WillOnce([](PullRequest, CallContext context,
                   ReplyCallback<PullReply> done) {
        EXPECT_EQ(context.max_reply_bytes, UINT64_MAX);
        std::move(done)(PullReply{{{.version = 2, .tensor = Vector({1, 2})}}});
      });
  v1::PullRequest request;
  request.add_entries()->set_key("k");
  request.set_ticket_from_bytes(8);
  v1::PullResponse reply;
  {
    grpc::ClientContext context;
    ASSERT_OK(FromGrpcStatus(service_.stub().Pull(&context, request, &reply)));
  }
  EXPECT_EQ(reply.ticket().size_bytes(), 8u);
  EXPECT_EQ(reply.values(0).version(), 2u);
  EXPECT_EQ(reply.values(0).tensor().data(), "");
  EXPECT_EQ(service_.tickets().num_open(), 1u);
  v1::PullStreamRequest values;
  values.set_ticket(reply.ticket().id());

  const auto reader = service_.stub().PullStream(&context_, values);

  v1::PullChunk chunk;
  ASSERT_TRUE(reader->Read(&chunk));
  EXPECT_EQ(chunk.part().data(), BytesOf(Vector({1, 2})));
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_OK(FromGrpcStatus(reader->Finish()));
  EXPECT_EQ(service_.tickets().num_open(), 0u);
  grpc::ClientContext again;
  const auto replayed = service_.stub().PullStream(&again, values);
  EXPECT_FALSE(replayed->Read(&chunk));
  EXPECT_EQ(ReasonOf(FromGrpcStatus(replayed->Finish())), Reason::kNoTicket);
}

TEST_F(StreamCallTest, ReplyWithoutRoomForItsValuesHasATicket) {
  EXPECT_CALL(service_.store, Pull)
      .WillRepeatedly(
          [](PullRequest, CallContext, ReplyCallback<PullReply> done) {
            std::move(done)(PullReply{{{2, testing::Full({1000}, 5)}}});
          });
  v1::PullRequest request;
  request.add_entries()->set_key("k");
  request.set_max_reply_bytes(4000);
  for (const uint64_t from : {uint64_t{0}, uint64_t{1} << 40}) {
    request.set_ticket_from_bytes(from);
    v1::PullResponse reply;
    grpc::ClientContext context;
    const absl::Status status =
        FromGrpcStatus(service_.stub().Pull(&context, request, &reply));
    EXPECT_EQ(ReasonOf(status),
              from == 0 ? Reason::kReplyTooLarge : Reason::kUnspecified);
    EXPECT_EQ(reply.has_ticket(), from > 0);
  }
}

TEST_F(StreamCallTest, TooManyStreamsAreRefused) {
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<PushWriter> open;
  for (uint32_t i = 0; i < testing::kMaxTestStreams; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    open.push_back(service_.stub().PushStream(contexts.back().get(), &reply_));
  }
  WaitForStreams(testing::kMaxTestStreams);

  PushWriter writer = OpenPush();

  EXPECT_THAT(Finish(writer),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("expected at most 3 open at once")));
  for (auto& context : contexts) context->TryCancel();
  for (PushWriter& each : open) each->Finish();
}

// Where a thread is that has handed the last message of the last of so many
// streams to gRPC.
struct AfterTheEnd {
  std::atomic<int> num_streams;
  Notification reached;
  Notification may_go_on;
};

// Keeps that thread there: gRPC asks it what it may send.
class StaysAfterTheEnd final : public grpc::experimental::Interceptor {
 public:
  explicit StaysAfterTheEnd(AfterTheEnd* end) : end_(*end) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    AfterTheEnd& end = end_;
    const bool is_last = batch->QueryInterceptionHookPoint(
        grpc::experimental::InterceptionHookPoints::PRE_SEND_STATUS);
    batch->Proceed();  // this may be gone now
    if (!is_last || --end.num_streams > 0) return;
    end.reached.Notify();
    end.may_go_on.WaitForNotification();
  }

 private:
  AfterTheEnd& end_;
};

class StayingAfterTheEnd final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit StayingAfterTheEnd(AfterTheEnd* end) : end_(*end) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo*) override {
    return new StaysAfterTheEnd(&end_);
  }

 private:
  AfterTheEnd& end_;
};

// The threads of a store end after the service of its calls.
TEST(StreamCallsEndTest, ThreadThatAnswersMayGoOnWhenTheServiceHasGone) {
  constexpr uint32_t kNumStripes = 2;
  AfterTheEnd end{.num_streams = kNumStripes};
  testing::LiveService::Interceptors interceptors;
  interceptors.push_back(std::make_unique<StayingAfterTheEnd>(&end));
  auto service =
      std::make_unique<testing::LiveService>(std::move(interceptors));
  std::thread answering;
  EXPECT_CALL(service->store, Push)
      .WillOnce([&](PushRequest, CallContext, ReplyCallback<PushReply> done) {
        answering = std::thread([done = std::move(done)]() mutable {
          std::move(done)(PushReply{{{.version = 4}}});
        });
      });
  {
    v1::PushResponse replies[kNumStripes];
    grpc::ClientContext contexts[kNumStripes];
    std::vector<std::unique_ptr<grpc::ClientWriter<v1::PushChunk>>> writers;
    for (uint32_t i = 0; i < kNumStripes; ++i) {
      writers.push_back(service->stub().PushStream(&contexts[i], &replies[i]));
      EXPECT_TRUE(writers[i]->Write(Manifest(
          Vector({1}), {.index = i, .count = kNumStripes, .group = 1})));
    }
    EXPECT_TRUE(writers[0]->Write(Part(Vector({1}))));  // the other has none
    for (const auto& writer : writers) EXPECT_TRUE(writer->WritesDone());
    for (const auto& writer : writers) {
      EXPECT_OK(FromGrpcStatus(writer->Finish()));
    }
  }
  end.reached.WaitForNotification();

  service.reset();
  end.may_go_on.Notify();

  answering.join();
}

}  // namespace
}  // namespace tensorkv
