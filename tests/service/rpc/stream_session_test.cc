#include "service/rpc/stream_session.h"

#include <memory>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorkv/v1/stream.pb.h"
#include "tests/contract/generated_codec.h"
#include "tests/service/fake_staging.h"
#include "tests/service/mock_store.h"
#include "tests/service/store/init_now.h"
#include "tests/service/store/scripted_store.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::testing::_;
using testing::AnswerWith;
using testing::BytesOf;
using testing::HasElements;
using ::testing::HasSubstr;
using testing::StatusIs;
using testing::Vector;

// A push of [1, 2, 3] to "a" and [4] to "b": 16 bytes.
class StreamSessionTest : public ::testing::Test {
 protected:
  StreamSessionTest() {
    request_.entries.push_back({.key = "a", .tensor = Vector({1, 2, 3})});
    request_.entries.push_back({.key = "b", .tensor = Vector({4})});
  }

  StreamSession NewSession(Method method = Method::kPushStream) {
    return StreamSession(method, Caller{"alice"}, &dependencies_, nullptr,
                         [this](absl::StatusOr<StripedCall::Reply> end) {
                           outcome_ = std::move(end);
                         });
  }

  static absl::Status Receive(StreamSession& session,
                              const v1::PushChunk& chunk) {
    const grpc::Slice slice(chunk.SerializeAsString());
    grpc::ByteBuffer bytes(&slice, 1);
    return session.Receive(&bytes);
  }

  v1::PushChunk Manifest(Stripe stripe = {}) const {
    return ManifestOf({request_, stripe});
  }
  static v1::PushChunk ManifestOf(PushManifest manifest) {
    v1::PushChunk chunk;
    if (manifest.stripe.count > 1) manifest.stripe.group = 1;
    ToProto(manifest, chunk.mutable_manifest());
    return chunk;
  }

  v1::PushChunk Part(uint32_t entry, uint64_t offset, uint64_t size) const {
    v1::PushChunk chunk;
    chunk.mutable_part()->set_entry(entry);
    chunk.mutable_part()->set_offset(offset);
    const std::string bytes =
        entry < 2 ? BytesOf(request_.entries[entry].tensor) : "";
    chunk.mutable_part()->set_data(offset < bytes.size()
                                       ? bytes.substr(offset, size)
                                       : std::string(size, 'x'));
    return chunk;
  }

  // Sends the manifest; then a part with which the stream must end.
  void ExpectRefused(const v1::PushChunk& part, const std::string& message) {
    StreamSession session = NewSession();
    ASSERT_OK(Receive(session, Manifest()));
    EXPECT_THAT(
        Receive(session, part),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }

  PushRequest request_;
  ::testing::StrictMock<testing::MockTensorStore> store_;
  testing::FakeStaging staging_;
  FakeAlarms alarms_;
  StripedCalls striped_calls_{absl::Seconds(30), &alarms_};
  Tickets tickets_{absl::Seconds(30), &alarms_};
  const CallDispatch calls_{{.store = &store_, .staging = &staging_}};
  const StreamDependencies dependencies_{.calls = &calls_,
                                         .striped_calls = &striped_calls_,
                                         .tickets = &tickets_,
                                         .limits = {}};
  std::optional<absl::StatusOr<StripedCall::Reply>> outcome_;
};

TEST_F(StreamSessionTest, PayloadIsOfTheCallersQuota) {
  CallerQuotas quotas;
  CallerQuotas::Share share =
      quotas.TakeShare("alice", {.bytes = 12}, {.streams = 1}).value();
  StreamSession session(Method::kPushStream, Caller{"alice"}, &dependencies_,
                        &share, nullptr);

  EXPECT_THAT(Receive(session, Manifest()),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("at most 12 bytes under way")));
}

TEST_F(StreamSessionTest, PartsBecomeOnePush) {
  PushRequest pushed;
  EXPECT_CALL(store_, Push)
      .WillOnce([&](PushRequest request, CallContext context,
                    ReplyCallback<PushReply> done) {
        pushed = std::move(request);
        EXPECT_EQ(context.timeout, absl::Seconds(3));
        EXPECT_EQ(context.caller.name, "alice");
        std::move(done)(PushReply{{{.version = 2}, {.version = 5}}});
      });
  StreamSession session = NewSession();

  ASSERT_OK(Receive(session, Manifest()));
  ASSERT_OK(Receive(session, Part(0, 0, 7)));
  ASSERT_OK(Receive(session, Part(0, 7, 5)));
  ASSERT_OK(Receive(session, Part(1, 0, 4)));
  ASSERT_OK(session.Close(absl::Seconds(3)));

  EXPECT_THAT(pushed.entries[0].tensor, HasElements({1, 2, 3}));
  EXPECT_THAT(pushed.entries[1].tensor, HasElements({4}));
  ASSERT_TRUE(outcome_ && outcome_->ok());
  EXPECT_EQ(std::get<PushReply>(***outcome_).results[1].version, 5u);
}

TEST_F(StreamSessionTest, RowsBecomeOnePush) {
  PushRequest pushed;
  EXPECT_CALL(store_, Push)
      .WillOnce(
          [&](PushRequest request, CallContext, ReplyCallback<PushReply> done) {
            pushed = std::move(request);
            std::move(done)(PushReply{{{.version = 2}, {.version = 2}}});
          });
  for (PushEntry& entry : request_.entries) {
    entry.rows = *RowIds::Create(Vector({7}, DType::kI64));
  }
  StreamSession session = NewSession();

  ASSERT_OK(Receive(session, Manifest()));
  ASSERT_OK(Receive(session, Part(0, 0, 12)));
  ASSERT_OK(Receive(session, Part(1, 0, 4)));
  ASSERT_OK(session.Close(absl::Seconds(3)));

  EXPECT_THAT(pushed.entries[0].tensor, HasElements({1, 2, 3}));
  EXPECT_THAT(pushed.entries[1].rows->tensor(), HasElements({7}));
  // Of the payload, and of the ids, which came before it.
  EXPECT_EQ(staging_.num_allocate_calls(), 2);
}

TEST_F(StreamSessionTest, IdsOfRowsAreOfTheCallersQuota) {
  for (PushEntry& entry : request_.entries) {
    entry.rows = *RowIds::Create(Vector({7}, DType::kI64));
  }
  CallerQuotas quotas;
  for (const uint64_t bytes : {31, 32}) {
    CallerQuotas::Share share =
        quotas.TakeShare("alice", {.bytes = bytes}, {.streams = 1}).value();
    StreamSession session(Method::kPushStream, Caller{"alice"}, &dependencies_,
                          &share, nullptr);

    EXPECT_EQ(Receive(session, Manifest()).code(),
              bytes < 32 ? absl::StatusCode::kResourceExhausted
                         : absl::StatusCode::kOk);
  }
}

TEST_F(StreamSessionTest, WhatIsNoBoolIsRefused) {
  request_.entries[0].tensor = testing::Full({12}, 1, DType::kBool);

  v1::PushChunk part = Part(0, 0, 12);
  (*part.mutable_part()->mutable_data())[3] = 2;
  ExpectRefused(part, "expected bools of 0 or 1, got 2");
}

TEST_F(StreamSessionTest, StreamThatIsRefusedLeavesTheOthersAlone) {
  StreamSession first = NewSession();
  ASSERT_OK(Receive(first, Manifest({0, 2})));
  StreamSession again = NewSession();

  const absl::Status refused = Receive(again, Manifest({0, 2}));
  again.Fail(refused);

  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_FALSE(outcome_);
}

TEST_F(StreamSessionTest, PushPullWhoseReplyCouldNotBeSentIsRefused) {
  PushPullRequest request;
  request.entries.assign(9, {.key = "a", .skip = true});
  const StreamDependencies small = {.calls = &calls_,
                                    .striped_calls = &striped_calls_,
                                    .limits = {.max_message_bytes = 1024}};
  StreamSession session(Method::kPushPullStream, {}, &small, nullptr, nullptr);

  EXPECT_THAT(Receive(session, ManifestOf({request})),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(StreamSessionTest, PartsInOtherFieldOrdersAreTaken) {
  EXPECT_CALL(store_, Push).WillOnce(AnswerWith<PushReply>(PushReply{}));
  request_.entries.resize(1);
  StreamSession session = NewSession();
  ASSERT_OK(Receive(session, Manifest()));
  v1::PushChunk data = Part(0, 0, 8), place;
  data.mutable_part()->clear_offset();
  place.mutable_part()->set_entry(0);
  place.mutable_part()->set_offset(0);
  const grpc::Slice slice(data.SerializeAsString() + place.SerializeAsString());
  grpc::ByteBuffer bytes(&slice, 1);

  ASSERT_OK(session.Receive(&bytes));
  ASSERT_OK(Receive(session, Part(0, 8, 4)));

  EXPECT_OK(session.Close(absl::Seconds(3)));
}

TEST_F(StreamSessionTest, ManifestIsCheckedBeforeAnyPayload) {
  staging_.set_check_status(absl::NotFoundError("key \"a\""));
  StreamSession session = NewSession();

  EXPECT_THAT(Receive(session, Manifest()),
              StatusIs(absl::StatusCode::kNotFound));

  EXPECT_EQ(staging_.num_allocate_calls(), 0);
}

TEST_F(StreamSessionTest, PayloadOverTheBudgetIsRefusedBeforeItComes) {
  staging_.set_allocate_status(absl::ResourceExhaustedError("budget"));
  StreamSession session = NewSession();

  EXPECT_THAT(Receive(session, Manifest()),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(StreamSessionTest, WhatCannotComeNextIsInvalid) {
  v1::PushChunk long_part = Part(0, 0, 12);
  long_part.mutable_part()->mutable_data()->append("more");

  ExpectRefused(long_part, "expected");
  ExpectRefused(Part(0, 4, 4), "expected");
  ExpectRefused(Part(1, 0, 4), "expected");
  ExpectRefused(Part(0xffffffff, 0, 4), "expected");
  ExpectRefused(Manifest(), "a second manifest");
  ExpectRefused(v1::PushChunk(), "expected a part, got none");
}

TEST_F(StreamSessionTest, MissingPartIsInvalid) {
  StreamSession session = NewSession();
  ASSERT_OK(Receive(session, Manifest()));
  ASSERT_OK(Receive(session, Part(0, 0, 12)));

  EXPECT_THAT(session.Close(absl::Seconds(3)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("12")));
}

TEST_F(StreamSessionTest, StreamWithoutManifestIsInvalid) {
  StreamSession session = NewSession();

  EXPECT_THAT(session.Close(absl::Seconds(3)),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(StreamSessionTest, PushPullIsAnsweredWithTheStripesValues) {
  EXPECT_CALL(store_,
              PushPull(::testing::_,
                       ::testing::Field(&CallContext::max_reply_bytes, 5000u),
                       ::testing::_))
      .WillOnce(AnswerWith<PullReply>(
          PullReply{{{.version = 2, .tensor = Vector({1, 2, 3})}}}));
  request_.entries.resize(1);
  PushPullRequest request = {request_};
  request.max_reply_bytes = 5000;
  StreamSession session = NewSession(Method::kPushPullStream);
  ASSERT_OK(Receive(session, ManifestOf({request})));
  ASSERT_OK(Receive(session, Part(0, 0, 12)));
  ASSERT_OK(session.Close(absl::Seconds(3)));
  ASSERT_TRUE(outcome_ && outcome_->ok());

  ASSERT_OK_AND_ASSIGN(ReplyMessages reply, session.MakeReply(**outcome_));

  reply.Next();
  EXPECT_FALSE(reply.is_done());
  reply.Next();
  EXPECT_TRUE(reply.is_done());
}

// A PullStream of a stripe of two.
class TicketSessionTest : public StreamSessionTest {
 protected:
  TicketSessionTest() {
    const auto held = tickets_.Add(
        "alice",
        {.values = {{.version = 2, .tensor = testing::Full({500}, 5)}}});
    id_ = std::get<PullReply>(**held).ticket->id;
  }

  absl::Status Take(StreamSession& session, uint32_t index) {
    v1::PullStreamRequest request;
    request.set_ticket(id_);
    request.set_max_part_bytes(1500);
    request.mutable_stripe()->set_index(index);
    request.mutable_stripe()->set_count(2);
    const grpc::Slice slice(request.SerializeAsString());
    grpc::ByteBuffer bytes(&slice, 1);
    return session.Receive(&bytes);
  }

  std::string id_;
};

TEST_F(TicketSessionTest, BringsTheStripeInTheFormThatItAskedFor) {
  StreamSession session = NewSession(Method::kPullStream);
  ASSERT_OK(Take(session, 0));
  bool is_ready = false;
  session.WhenReady([&] { is_ready = true; });
  EXPECT_TRUE(is_ready);
  ASSERT_OK(session.Close(absl::Seconds(3)));

  ASSERT_OK_AND_ASSIGN(ReplyMessages reply, session.MakeReply(**outcome_));

  EXPECT_EQ(reply.payload_bytes(), 1024u);
  EXPECT_LE(reply.Next().Length(), 1600u);
  EXPECT_TRUE(reply.is_done());
}

TEST_F(TicketSessionTest, TicketEndsWhenAllHasBeenSent) {
  StreamSession first = NewSession(Method::kPullStream);
  StreamSession second = NewSession(Method::kPullStream);
  ASSERT_OK(Take(first, 0));
  ASSERT_OK(Take(second, 1));

  first.SetSent();
  EXPECT_EQ(tickets_.num_open(), 1u);
  second.SetSent();
  EXPECT_EQ(tickets_.num_open(), 0u);
}

TEST_F(TicketSessionTest, TicketEndsWithAStripeThatFails) {
  StreamSession session = NewSession(Method::kPullStream);
  ASSERT_OK(Take(session, 0));

  session.Fail(absl::CancelledError("gone"));

  EXPECT_EQ(tickets_.num_open(), 0u);
}

TEST_F(TicketSessionTest, SecondMessageIsInvalid) {
  StreamSession session = NewSession(Method::kPullStream);
  ASSERT_OK(Take(session, 0));

  EXPECT_THAT(Take(session, 1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(StreamSessionTest, FailureIsHeard) {
  StreamSession session = NewSession();
  ASSERT_OK(Receive(session, Manifest()));

  session.Fail(absl::CancelledError("gone"));

  ASSERT_TRUE(outcome_);
  EXPECT_THAT(*outcome_, StatusIs(absl::StatusCode::kCancelled, "gone"));
}

}  // namespace
}  // namespace tensorkv
