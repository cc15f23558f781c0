#include "client/internal/unary_calls.h"

#include <optional>
#include <string>

#include "client/internal/grpc_channel.h"
#include "contract/grpc_status.h"
#include "contract/incarnation_metadata.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_service.h"
#include "tests/client/patterned_tensor.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace unary_calls_test {

using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::FakeService;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::Patterned;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kMaxMessageBytes = 10'000;

class UnaryCallsTest : public ::testing::Test {
 protected:
  UnaryCallsTest()
      : calls_(std::in_place, OpenChannel(service_.Start(), kMaxMessageBytes),
               &server_, kMaxMessageBytes,
               MakeRefCounted<BufferPool>(1 << 20)) {}

  FakeService service_;
  ServerIncarnation server_;
  std::optional<UnaryCalls> calls_;
  CallDeadline deadline_{absl::Seconds(30)};
};

TEST_F(UnaryCallsTest, InitArrivesWhole) {
  service_.init_response.add_versions(1);

  ASSERT_OK_AND_ASSIGN(
      const InitReply reply,
      calls_->Call(InitRequest{.name_space = "n",
                               .on_existing = OnExisting::kKeep,
                               .entries = {{"w", Patterned(5000)}}},
                   deadline_));

  EXPECT_THAT(reply.versions, ElementsAre(1));
  EXPECT_EQ(service_.init_request.namespace_(), "n");
  EXPECT_EQ(service_.init_request.on_existing(), v1::ON_EXISTING_KEEP);
  ASSERT_EQ(service_.init_request.entries_size(), 1);
  EXPECT_EQ(service_.init_request.entries(0).key(), "w");
  EXPECT_EQ(service_.init_request.entries(0).tensor().data(),
            BytesOf(Patterned(5000)));
}

TEST_F(UnaryCallsTest, PushArrivesWhole) {
  service_.push_response.add_results()->set_version(4);

  ASSERT_OK_AND_ASSIGN(
      const PushReply reply,
      calls_->Call(
          PushRequest{.worker = Worker{.rank = 3},
                      .step = 9,
                      .entries = {{.key = "w", .tensor = Patterned(5000)}}},
          deadline_));

  EXPECT_THAT(reply.results, ElementsAre(Field(&PushResult::version, 4)));
  EXPECT_EQ(service_.push_request.worker().rank(), 3);
  EXPECT_EQ(service_.push_request.step(), 9);
  ASSERT_EQ(service_.push_request.entries_size(), 1);
  EXPECT_EQ(service_.push_request.entries(0).tensor().data(),
            BytesOf(Patterned(5000)));
}

TEST_F(UnaryCallsTest, PullBringsAll) {
  ToProto(PullReply{{{7, Patterned(5000)}}}, &service_.pull_response);

  ASSERT_OK_AND_ASSIGN(
      const PullReply reply,
      calls_->Call(PullRequest{.entries = {{"w"}}}, deadline_));

  EXPECT_EQ(reply.values.at(0).version, 7);
  EXPECT_EQ(BytesOf(reply.values[0].tensor), BytesOf(Patterned(5000)));
}

TEST_F(UnaryCallsTest, PushPullSendsAndBringsAll) {
  ToProto(PullReply{{{7, Patterned(5000, 2)}}}, &service_.pull_response);

  ASSERT_OK_AND_ASSIGN(
      const PullReply reply,
      calls_->Call(
          PushPullRequest{
              {.step = 9,
               .entries = {{.key = "w", .tensor = Patterned(5000, 1)}}}},
          deadline_));

  EXPECT_EQ(service_.push_pull_request.push().step(), 9);
  EXPECT_EQ(service_.push_pull_request.push().max_reply_bytes(),
            kMaxMessageBytes);
  EXPECT_EQ(service_.push_pull_request.push().entries(0).tensor().data(),
            BytesOf(Patterned(5000, 1)));
  EXPECT_EQ(BytesOf(reply.values.at(0).tensor), BytesOf(Patterned(5000, 2)));
}

TEST_F(UnaryCallsTest, PushPullStatesTheReplyThatItTakes) {
  ASSERT_OK(calls_->Call(PushPullRequest(), deadline_));
  EXPECT_EQ(service_.push_pull_request.push().max_reply_bytes(),
            kMaxMessageBytes);

  ASSERT_OK(calls_->Call(PushPullRequest{{.max_reply_bytes = 77}}, deadline_));
  EXPECT_EQ(service_.push_pull_request.push().max_reply_bytes(), 77);
}

TEST_F(UnaryCallsTest, TensorsOutliveTheConnection) {
  ToProto(PullReply{{{7, Patterned(5000)}}}, &service_.pull_response);
  ASSERT_OK_AND_ASSIGN(
      const PullReply reply,
      calls_->Call(PullRequest{.entries = {{"w"}}}, deadline_));

  calls_.reset();
  service_.Stop();

  EXPECT_EQ(BytesOf(reply.values.at(0).tensor), BytesOf(Patterned(5000)));
}

TEST_F(UnaryCallsTest, RequestOverTheLimitIsNotSent) {
  const Tensor large = Patterned(kMaxMessageBytes);

  EXPECT_THAT(calls_->Call(InitRequest{.entries = {{"w", large}}}, deadline_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("at most 10000")));
  EXPECT_THAT(
      calls_->Call(PushRequest{.entries = {{.key = "w", .tensor = large}}},
                   deadline_),
      StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(calls_->Call(
                  PushPullRequest{{.entries = {{.key = "w", .tensor = large}}}},
                  deadline_),
              StatusIs(absl::StatusCode::kResourceExhausted));

  EXPECT_THAT(service_.rpcs(), IsEmpty());
}

TEST_F(UnaryCallsTest, ReplyOverTheLimitIsResourceExhausted) {
  ToProto(PullReply{{{7, Patterned(kMaxMessageBytes)}}},
          &service_.pull_response);

  EXPECT_THAT(calls_->Call(PullRequest{.entries = {{"w"}}}, deadline_),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(UnaryCallsTest, ServersErrorsComeAsTheyAre) {
  service_.status = grpc::Status(grpc::StatusCode::NOT_FOUND, "key");

  EXPECT_THAT(calls_->Call(InitRequest{}, deadline_),
              StatusIs(absl::StatusCode::kNotFound, "key"));
  EXPECT_THAT(calls_->Call(PullRequest{}, deadline_),
              StatusIs(absl::StatusCode::kNotFound, "key"));
}

// Names its incarnation, and refuses calls that expect another one.
class IncarnateService final : public FakeService {
 public:
  grpc::Status DescribeNamespace(grpc::ServerContext* context,
                                 const v1::DescribeNamespaceRequest*,
                                 v1::DescribeNamespaceResponse*) override {
    return Check(context);
  }
  grpc::Status Pull(grpc::ServerContext* context, const v1::PullRequest*,
                    v1::PullResponse*) override {
    return Check(context);
  }

  uint64_t incarnation = 0xab;

 private:
  grpc::Status Check(grpc::ServerContext* context) const {
    const std::string own = FormatIncarnation(incarnation);
    const auto& metadata = context->client_metadata();
    const auto expected = metadata.find(kIncarnationMetadata);
    if (expected != metadata.end() && expected->second != own) {
      return ToGrpcStatus(WithReason(absl::FailedPreconditionError("another"),
                                     Reason::kServerRestarted));
    }
    context->AddInitialMetadata(kIncarnationMetadata, own);
    return grpc::Status::OK;
  }
};

TEST_F(UnaryCallsTest, DescribeTakesAnyIncarnationAndLearnsTheFirst) {
  IncarnateService service;
  calls_.emplace(OpenChannel(service.Start(), kMaxMessageBytes), &server_,
                 kMaxMessageBytes, MakeRefCounted<BufferPool>(1 << 20));
  ASSERT_OK(calls_->Call(DescribeNamespaceRequest(), deadline_));
  EXPECT_EQ(server_.incarnation(), 0xab);

  service.incarnation = 0xcd;
  EXPECT_OK(calls_->Call(DescribeNamespaceRequest(), deadline_));

  EXPECT_EQ(server_.incarnation(), 0xab);
  EXPECT_THAT(calls_->Call(PullRequest(), deadline_).status(),
              HasReason(Reason::kServerRestarted));
  calls_.reset();
  service.Stop();
}

}  // namespace unary_calls_test
}  // namespace tensorkv
