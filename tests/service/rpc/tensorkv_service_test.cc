#include "service/rpc/tensorkv_service.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "contract/grpc_status.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/rpc/live_service.h"
#include "tests/testing/background.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::testing::_;
using ::testing::AllOf;
using testing::AnswerWith;
using testing::Background;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::Ge;
using testing::HasElements;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Optional;
using ::testing::Return;
using testing::StatusIs;
using testing::Vector;

class TensorKvServiceTest : public ::testing::Test {
 protected:
  absl::Status Push(const v1::PushRequest& request, v1::PushResponse* reply) {
    grpc::ClientContext context;
    return FromGrpcStatus(service_.stub().Push(&context, request, reply));
  }

  absl::Status Pull(const v1::PullRequest& request, v1::PullResponse* reply) {
    grpc::ClientContext context;
    return FromGrpcStatus(service_.stub().Pull(&context, request, reply));
  }

  // Makes Pulls wait; returns once one has come, with its context.
  void HoldPulls() {
    EXPECT_CALL(service_.store, Pull)
        .WillRepeatedly([this](PullRequest, CallContext context,
                               ReplyCallback<PullReply> done) {
          held_context_ = std::move(context);
          held_done_ = std::move(done);
          held_.Notify();
        });
  }

  testing::LiveService service_;
  Notification held_;
  CallContext held_context_;
  ReplyCallback<PullReply> held_done_;
};

v1::PushRequest PushOf(double element) {
  v1::PushRequest push;
  push.set_namespace_("n");
  push.set_step(9);
  push.add_entries()->set_key("k");
  ToProto(Vector({element}), push.mutable_entries(0)->mutable_tensor());
  return push;
}

TEST_F(TensorKvServiceTest, PushReachesTheStoreAndItsAnswerTheClient) {
  EXPECT_CALL(service_.store,
              Push(AllOf(Field(&PushRequest::name_space, "n"),
                         Field(&PushRequest::step, 9u),
                         Field(&PushRequest::entries,
                               ElementsAre(AllOf(Field(&PushEntry::key, "k"),
                                                 Field(&PushEntry::tensor,
                                                       HasElements({5})))))),
                   ::testing::_, ::testing::_))
      .WillOnce(AnswerWith<PushReply>(PushReply{{{.version = 4}}}));
  v1::PushResponse reply;

  ASSERT_OK(Push(PushOf(5), &reply));

  EXPECT_EQ(reply.results(0).version(), 4u);
}

TEST_F(TensorKvServiceTest, ContributionOutlivesItsCall) {
  Tensor kept;
  EXPECT_CALL(service_.store, Push)
      .WillOnce(
          [&](PushRequest request, CallContext, ReplyCallback<PushReply> done) {
            kept = request.entries[0].tensor;
            std::move(done)(PushReply{{{.step = 9}}});
          });
  v1::PushResponse reply;

  ASSERT_OK(Push(PushOf(5), &reply));

  EXPECT_THAT(kept, HasElements({5}));
}

TEST_F(TensorKvServiceTest, PullGivesTheValuesOfTheStore) {
  EXPECT_CALL(service_.store, Pull)
      .WillOnce(AnswerWith<PullReply>(
          PullReply{{{.version = 2, .tensor = Vector({1, 2, 3})}}}));
  v1::PullResponse reply;

  ASSERT_OK(Pull({}, &reply));

  EXPECT_EQ(reply.values(0).version(), 2u);
  EXPECT_THAT(FromProto(std::move(*reply.mutable_values(0)->mutable_tensor())),
              testing::IsOkAndHolds(HasElements({1, 2, 3})));
}

TEST_F(TensorKvServiceTest, PushPullPushesAndGivesValues) {
  EXPECT_CALL(service_.store, PushPull)
      .WillOnce(AnswerWith<PullReply>(PullReply{{{.version = 2}}}));
  v1::PushPullRequest request;
  *request.mutable_push() = PushOf(5);
  v1::PushPullResponse reply;
  grpc::ClientContext context;

  ASSERT_TRUE(service_.stub().PushPull(&context, request, &reply).ok());

  EXPECT_EQ(reply.values(0).version(), 2u);
}

// The store must refuse before it pushes what the reply has no room for.
TEST_F(TensorKvServiceTest, PushPullLeavesRoomForTheReplysMetadata) {
  uint64_t max_reply_bytes = 0;
  EXPECT_CALL(service_.store, PushPull)
      .WillOnce([&](PushRequest, CallContext context,
                    ReplyCallback<PullReply> done) {
        max_reply_bytes = context.max_reply_bytes;
        const int64_t size = static_cast<int64_t>(max_reply_bytes);
        std::move(done)(
            PullReply{{{UINT64_MAX, *Tensor::Filled(DType::kU8, {size}, 1)}}});
      });
  v1::PushPullRequest request;
  *request.mutable_push() = PushOf(5);
  v1::PushPullResponse reply;
  grpc::ClientContext context;

  EXPECT_TRUE(service_.stub().PushPull(&context, request, &reply).ok());
  EXPECT_LT(max_reply_bytes, testing::kTestLimits.max_message_bytes);
  EXPECT_GT(max_reply_bytes, testing::kTestLimits.max_message_bytes / 2);
}

TEST_F(TensorKvServiceTest, CallerBoundsTheReply) {
  const auto bound_of = [&](auto, CallContext context,
                            ReplyCallback<PullReply> done) {
    EXPECT_LE(context.max_reply_bytes, 2000u);
    std::move(done)(PullReply{{{1, *Tensor::Filled(DType::kU8, {2000}, 1)}}});
  };
  EXPECT_CALL(service_.store, Pull).WillOnce(bound_of);
  EXPECT_CALL(service_.store, PushPull).WillOnce(bound_of);
  v1::PullRequest pull;
  pull.set_max_reply_bytes(2000);
  v1::PullResponse reply;
  v1::PushPullRequest push_pull;
  *push_pull.mutable_push() = PushOf(5);
  push_pull.mutable_push()->set_max_reply_bytes(2000);
  v1::PushPullResponse push_pull_reply;
  grpc::ClientContext context;

  const absl::Status status = Pull(pull, &reply);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("the limit of a message is 2000")));
  EXPECT_EQ(ReasonOf(status), Reason::kReplyTooLarge);
  EXPECT_EQ(ErrorInfoOf(status)->metadata.at("available"), "2000");
  EXPECT_FALSE(
      service_.stub().PushPull(&context, push_pull, &push_pull_reply).ok());
}

TEST_F(TensorKvServiceTest, InitGivesVersions) {
  EXPECT_CALL(service_.store, Init)
      .WillOnce(AnswerWith<InitReply>(InitReply{{1}}));
  v1::InitResponse reply;
  grpc::ClientContext context;

  ASSERT_TRUE(service_.stub().Init(&context, {}, &reply).ok());

  EXPECT_THAT(reply.versions(), ElementsAre(1));
}

TEST_F(TensorKvServiceTest, DeleteGivesTheNumber) {
  EXPECT_CALL(service_.store, Delete).WillOnce(Return(DeleteReply{6}));
  v1::DeleteResponse reply;
  grpc::ClientContext context;

  ASSERT_TRUE(service_.stub().Delete(&context, {}, &reply).ok());

  EXPECT_EQ(reply.num_deleted(), 6u);
}

TEST_F(TensorKvServiceTest, ListGivesKeysAndThePageToken) {
  EXPECT_CALL(service_.store, List)
      .WillOnce(Return(ListReply{{{.key = "k"}}, "next"}));
  v1::ListResponse reply;
  grpc::ClientContext context;

  ASSERT_TRUE(service_.stub().List(&context, {}, &reply).ok());

  EXPECT_EQ(reply.keys(0).key(), "k");
  EXPECT_EQ(reply.next_page_token(), "next");
}

TEST_F(TensorKvServiceTest, StatGivesKeys) {
  EXPECT_CALL(service_.store, Stat).WillOnce(Return(StatReply{{{.key = "k"}}}));
  v1::StatResponse reply;
  grpc::ClientContext context;

  ASSERT_TRUE(service_.stub().Stat(&context, {}, &reply).ok());

  EXPECT_EQ(reply.keys(0).key(), "k");
}

TEST_F(TensorKvServiceTest, CreateNamespacePassesTheConfiguration) {
  EXPECT_CALL(
      service_.namespaces,
      CreateNamespace(Field(&CreateNamespaceRequest::name_space, "n"), _))
      .WillOnce(Return(CreateNamespaceReply{.uid = 5}));
  v1::CreateNamespaceRequest request;
  request.set_namespace_("n");
  v1::CreateNamespaceResponse reply;
  grpc::ClientContext context;

  ASSERT_TRUE(service_.stub().CreateNamespace(&context, request, &reply).ok());

  EXPECT_EQ(reply.uid(), 5u);
}

TEST_F(TensorKvServiceTest, DescribeNamespaceGivesItsStatus) {
  EXPECT_CALL(service_.namespaces, DescribeNamespace(absl::string_view("n"), _))
      .WillOnce(Return(NamespaceStatus{.name = "n", .num_keys = 3}));
  v1::DescribeNamespaceRequest request;
  request.set_namespace_("n");
  v1::DescribeNamespaceResponse reply;
  grpc::ClientContext context;

  ASSERT_TRUE(
      service_.stub().DescribeNamespace(&context, request, &reply).ok());

  EXPECT_EQ(reply.status().num_keys(), 3u);
}

TEST_F(TensorKvServiceTest, ListNamespacesGivesAll) {
  EXPECT_CALL(service_.namespaces, ListNamespaces)
      .WillOnce(
          Return(std::vector<NamespaceStatus>{{.name = "a"}, {.name = "b"}}));
  v1::ListNamespacesResponse reply;
  grpc::ClientContext context;

  ASSERT_TRUE(service_.stub().ListNamespaces(&context, {}, &reply).ok());

  ASSERT_EQ(reply.namespaces_size(), 2);
  EXPECT_EQ(reply.namespaces(1).name(), "b");
}

TEST_F(TensorKvServiceTest, ListNamespacesGivesPages) {
  EXPECT_CALL(service_.namespaces, ListNamespaces(absl::string_view(), 3, _, _))
      .WillOnce(Return(std::vector<NamespaceStatus>{
          {.name = "a"}, {.name = "b"}, {.name = "c"}}));
  EXPECT_CALL(service_.namespaces,
              ListNamespaces(absl::string_view("b"), 3, _, _))
      .WillOnce(Return(std::vector<NamespaceStatus>{{.name = "c"}}));
  v1::ListNamespacesRequest request;
  request.set_page_size(2);
  v1::ListNamespacesResponse first;
  v1::ListNamespacesResponse second;
  grpc::ClientContext context;
  grpc::ClientContext next_context;

  ASSERT_TRUE(service_.stub().ListNamespaces(&context, request, &first).ok());
  request.set_page_token(first.next_page_token());
  ASSERT_TRUE(
      service_.stub().ListNamespaces(&next_context, request, &second).ok());

  EXPECT_EQ(first.namespaces_size(), 2);
  ASSERT_EQ(second.namespaces_size(), 1);
  EXPECT_EQ(second.namespaces(0).name(), "c");
  EXPECT_EQ(second.next_page_token(), "");
}

TEST_F(TensorKvServiceTest, PageOfKeysEndsBeforeItIsTooLarge) {
  ListReply all;
  for (const char letter : {'a', 'b', 'c'}) {
    all.keys.push_back({.key = std::string(1, letter),
                        .states = {std::string(
                            testing::kTestLimits.max_message_bytes / 3, 'x')}});
  }
  EXPECT_CALL(service_.store, List).WillOnce(Return(all));
  v1::ListResponse page;
  grpc::ClientContext context;

  ASSERT_TRUE(service_.stub().List(&context, {}, &page).ok());

  EXPECT_LT(page.keys_size(), 3);
  EXPECT_EQ(page.next_page_token(), page.keys(page.keys_size() - 1).key());
}

TEST_F(TensorKvServiceTest, DeleteNamespacePassesNameAndUid) {
  EXPECT_CALL(service_.namespaces,
              DeleteNamespace(absl::string_view("n"), 7, _))
      .WillOnce(Return(absl::OkStatus()));
  v1::DeleteNamespaceRequest request;
  request.set_namespace_("n");
  request.set_namespace_uid(7);
  v1::DeleteNamespaceResponse reply;
  grpc::ClientContext context;

  EXPECT_TRUE(service_.stub().DeleteNamespace(&context, request, &reply).ok());
}

TEST_F(TensorKvServiceTest, SetRulePassesPatternAndRule) {
  EXPECT_CALL(service_.namespaces,
              SetRule(AllOf(Field(&SetRuleRequest::key_pattern, "fc*"),
                            Field(&SetRuleRequest::rule,
                                  Optional(Field(&RuleSpec::name, "adam")))),
                      _))
      .WillOnce(Return(absl::OkStatus()));
  v1::SetRuleRequest request;
  request.set_key_pattern("fc*");
  request.mutable_rule()->set_name("adam");
  v1::SetRuleResponse reply;
  grpc::ClientContext context;

  EXPECT_TRUE(service_.stub().SetRule(&context, request, &reply).ok());
}

TEST_F(TensorKvServiceTest, UnsetRulePassesThePattern) {
  EXPECT_CALL(service_.namespaces,
              UnsetRule(Field(&UnsetRuleRequest::key_pattern, "fc*"), _))
      .WillOnce(Return(absl::OkStatus()));
  v1::UnsetRuleRequest request;
  request.set_key_pattern("fc*");
  v1::UnsetRuleResponse reply;
  grpc::ClientContext context;

  EXPECT_TRUE(service_.stub().UnsetRule(&context, request, &reply).ok());
}

TEST_F(TensorKvServiceTest, SetHyperparametersGivesTheRule) {
  EXPECT_CALL(service_.namespaces, SetHyperparameters)
      .WillOnce(Return(RuleSpec{.name = "sgd"}));
  v1::SetHyperparametersResponse reply;
  grpc::ClientContext context;

  ASSERT_TRUE(service_.stub().SetHyperparameters(&context, {}, &reply).ok());

  EXPECT_EQ(reply.rule().name(), "sgd");
}

TEST_F(TensorKvServiceTest, DescribeServerGivesItsStatus) {
  v1::DescribeServerResponse reply;
  grpc::ClientContext context;

  ASSERT_TRUE(service_.stub().DescribeServer(&context, {}, &reply).ok());

  EXPECT_EQ(reply.version(), "test");
  EXPECT_EQ(reply.incarnation(), testing::kTestIncarnation);
}

TEST_F(TensorKvServiceTest, ErrorsOfTheStoreReachTheClient) {
  EXPECT_CALL(service_.store, Pull)
      .WillOnce(AnswerWith<PullReply>(absl::AbortedError("round 7 failed")));
  v1::PullResponse reply;

  EXPECT_THAT(Pull({}, &reply),
              StatusIs(absl::StatusCode::kAborted, "round 7 failed"));
}

class MalformedCallTest : public TensorKvServiceTest,
                          public ::testing::WithParamInterface<Method> {};

TEST_P(MalformedCallTest, IsInvalidAndNeverReachesTheStore) {
  const std::string path = "/tensorkv.v1.TensorKV/";

  const grpc::Status status = service_.CallWithBytes(
      path + std::string(NameOf(GetParam())), "\xFF\xFF\xFF");

  EXPECT_THAT(
      FromGrpcStatus(status),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("malformed ")));
}

INSTANTIATE_TEST_SUITE_P(AllMethods, MalformedCallTest,
                         ::testing::ValuesIn(kAllMethods));

TEST_F(TensorKvServiceTest, CallWithoutMessageNeverReachesTheStore) {
  EXPECT_CALL(service_.store, Init).Times(0);

  const grpc::Status status =
      service_.CallWithoutMessage("/tensorkv.v1.TensorKV/Init");

  EXPECT_THAT(FromGrpcStatus(status),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "request: expected a message, got none"));
  EXPECT_EQ(service_.observer.WaitForHandled(1)[0].outcome.code,
            absl::StatusCode::kInvalidArgument);
}

TEST_F(TensorKvServiceTest, CallThatIsCancelledBeforeItsMessageIsNoError) {
  EXPECT_CALL(service_.store, Init).Times(0);

  const grpc::Status status =
      service_.CancelWithoutMessage("/tensorkv.v1.TensorKV/Init");

  EXPECT_THAT(FromGrpcStatus(status), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(service_.observer.WaitForHandled(1)[0].outcome.code,
            absl::StatusCode::kCancelled);
}

TEST_F(TensorKvServiceTest, TooManyEntriesAreTooMuch) {
  v1::PullRequest request;
  for (uint32_t i = 0; i <= testing::kTestLimits.max_entries; ++i) {
    request.add_entries()->set_key("k");
  }
  v1::PullResponse reply;

  EXPECT_THAT(Pull(request, &reply),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "PullRequest: expected at most 8 entries, got 9"));
}

TEST_F(TensorKvServiceTest, ReplyOverTheLimitSaysSo) {
  const int64_t too_many = testing::kTestLimits.max_message_bytes / 4;
  EXPECT_CALL(service_.store, Pull)
      .WillOnce(AnswerWith<PullReply>(
          PullReply{{{.tensor = testing::Full({too_many}, 1)}}}));
  v1::PullResponse reply;

  EXPECT_THAT(
      Pull({}, &reply),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("the limit of a message is 65536: ask for less")));
}

TEST_F(TensorKvServiceTest, DeadlineReachesTheStoreALittleShorter) {
  CallContext seen;
  EXPECT_CALL(service_.store, Pull)
      .WillOnce(
          [&](PullRequest, CallContext context, ReplyCallback<PullReply> done) {
            seen = context;
            std::move(done)(PullReply());
          });
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::minutes(10));
  v1::PullResponse reply;

  ASSERT_TRUE(service_.stub().Pull(&context, {}, &reply).ok());

  EXPECT_THAT(seen.timeout,
              AllOf(Ge(absl::Minutes(5)),
                    Le(absl::Minutes(10) - absl::Milliseconds(200))));
}

TEST_F(TensorKvServiceTest, CallWithoutDeadlineLeavesTheBoundToTheStore) {
  CallContext seen;
  EXPECT_CALL(service_.store, Pull)
      .WillOnce(
          [&](PullRequest, CallContext context, ReplyCallback<PullReply> done) {
            seen = context;
            std::move(done)(PullReply());
          });
  v1::PullResponse reply;

  ASSERT_OK(Pull({}, &reply));

  EXPECT_EQ(seen.timeout, absl::InfiniteDuration());
}

TEST_F(TensorKvServiceTest, WaitingCallIsAnsweredFromAnotherThread) {
  HoldPulls();
  v1::PullResponse reply;
  Background pull([&] { return Pull({}, &reply); });
  held_.WaitForNotification();

  std::move(held_done_)(PullReply{{{.version = 8}}});

  EXPECT_OK(pull.Result());
  EXPECT_EQ(reply.values(0).version(), 8u);
}

TEST_F(TensorKvServiceTest, CallsThatBlockKeepNobodyElseWaiting) {
  Notification release;
  EXPECT_CALL(service_.store, Stat)
      .WillRepeatedly([&](const StatRequest& request, const CallContext&) {
        if (request.name_space == "slow") release.WaitForNotification();
        return StatReply();
      });
  EXPECT_CALL(service_.namespaces, KeepAlive)
      .WillRepeatedly(Return(KeepAliveReply()));
  std::vector<std::thread> slow;
  const auto stat = [](v1::TensorKV::Stub& stub, const std::string& name) {
    grpc::ClientContext context;
    v1::StatRequest request;
    request.set_namespace_(name);
    v1::StatResponse reply;
    return FromGrpcStatus(stub.Stat(&context, request, &reply));
  };
  // More than gRPC and the pool have threads.
  for (int i = 0; i < 40; ++i) {
    slow.emplace_back([&] { EXPECT_OK(stat(service_.stub(), "slow")); });
  }
  service_.observer.WaitForStarted(slow.size());

  grpc::ClientContext context;
  v1::KeepAliveRequest renewal;
  renewal.mutable_worker()->set_rank(0);
  v1::KeepAliveResponse alive;
  EXPECT_OK(
      FromGrpcStatus(service_.stub().KeepAlive(&context, renewal, &alive)));
  EXPECT_OK(stat(*service_.Connect(), "fast"));

  release.Notify();
  for (std::thread& caller : slow) caller.join();
}

TEST_F(TensorKvServiceTest, CancellationReachesTheStore) {
  HoldPulls();
  grpc::ClientContext context;
  v1::PullResponse reply;
  Background pull([&] {
    return FromGrpcStatus(service_.stub().Pull(&context, {}, &reply));
  });
  held_.WaitForNotification();
  Notification cancelled;
  held_context_.cancellation->OnCancel([&] { cancelled.Notify(); });

  context.TryCancel();

  EXPECT_THAT(pull.Result(), StatusIs(absl::StatusCode::kCancelled));
  cancelled.WaitForNotification();
  std::move(held_done_)(absl::CancelledError("gone"));
}

TEST_F(TensorKvServiceTest, PassedDeadlineReachesTheStoreAsCancellation) {
  HoldPulls();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(200));
  v1::PullResponse reply;
  Background pull([&] {
    return FromGrpcStatus(service_.stub().Pull(&context, {}, &reply));
  });
  held_.WaitForNotification();
  Notification cancelled;
  held_context_.cancellation->OnCancel([&] { cancelled.Notify(); });

  EXPECT_THAT(pull.Result(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  cancelled.WaitForNotification();
  std::move(held_done_)(absl::DeadlineExceededError("late"));
}

TEST_F(TensorKvServiceTest, ObserverSeesSizesOfAnsweredCalls) {
  EXPECT_CALL(service_.store, Push)
      .WillOnce(AnswerWith<PushReply>(PushReply{{{.version = 4}}}));
  v1::PushResponse reply;

  ASSERT_OK(Push(PushOf(5), &reply));

  const auto handled = service_.observer.WaitForHandled(1);
  EXPECT_THAT(service_.observer.started(), ElementsAre(Method::kPush));
  EXPECT_EQ(handled[0].method, Method::kPush);
  EXPECT_EQ(handled[0].outcome.code, absl::StatusCode::kOk);
  EXPECT_EQ(handled[0].outcome.request_bytes, PushOf(5).ByteSizeLong());
  EXPECT_EQ(handled[0].outcome.reply_bytes, reply.ByteSizeLong());
  EXPECT_GT(handled[0].outcome.duration, absl::ZeroDuration());
}

TEST_F(TensorKvServiceTest, ObserverSeesCodesOfFailedCalls) {
  EXPECT_CALL(service_.store, Pull)
      .WillOnce(AnswerWith<PullReply>(absl::NotFoundError("no key")));
  v1::PullResponse reply;

  EXPECT_FALSE(Pull({}, &reply).ok());

  const auto handled = service_.observer.WaitForHandled(1);
  EXPECT_EQ(handled[0].outcome.code, absl::StatusCode::kNotFound);
  EXPECT_EQ(handled[0].outcome.reply_bytes, 0u);
}

}  // namespace
}  // namespace tensorkv
