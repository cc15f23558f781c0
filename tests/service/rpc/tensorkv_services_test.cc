#include "service/rpc/tensorkv_services.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "contract/grpc_status.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/contract/generated_codec.h"
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
using ::testing::Ge;
using testing::HasElements;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Return;
using testing::StatusIs;
using testing::Vector;

class TensorKvServicesTest : public ::testing::Test {
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

// The store must refuse before it pushes what the reply has no room for.
TEST_F(TensorKvServicesTest, PushPullLeavesRoomForTheReplysMetadata) {
  uint64_t max_reply_bytes = 0;
  EXPECT_CALL(service_.store, PushPull)
      .WillOnce([&](PushPullRequest, CallContext context,
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

TEST_F(TensorKvServicesTest, CallerBoundsTheReply) {
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
  push_pull.set_max_reply_bytes(2000);
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

NamespaceStatus StatusOfName(const std::string& name) {
  NamespaceStatus status;
  status.set_name(name);
  return status;
}

TEST_F(TensorKvServicesTest, ListNamespacesGivesPages) {
  EXPECT_CALL(service_.namespaces, ListNamespaces(absl::string_view(), 3, _, _))
      .WillOnce(Return(std::vector<NamespaceStatus>{
          StatusOfName("a"), StatusOfName("b"), StatusOfName("c")}));
  EXPECT_CALL(service_.namespaces,
              ListNamespaces(absl::string_view("b"), 3, _, _))
      .WillOnce(Return(std::vector<NamespaceStatus>{StatusOfName("c")}));
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

TEST_F(TensorKvServicesTest, PageOfKeysEndsBeforeItIsTooLarge) {
  ListReply all;
  for (const char letter : {'a', 'b', 'c'}) {
    KeyStatus& key = *all.add_keys();
    key.set_key(std::string(1, letter));
    key.add_states(
        std::string(testing::kTestLimits.max_message_bytes / 3, 'x'));
  }
  EXPECT_CALL(service_.store, List).WillOnce(Return(all));
  v1::ListResponse page;
  grpc::ClientContext context;

  ASSERT_TRUE(service_.stub().List(&context, {}, &page).ok());

  EXPECT_LT(page.keys_size(), 3);
  EXPECT_EQ(page.next_page_token(), page.keys(page.keys_size() - 1).key());
}

class MalformedCallTest : public TensorKvServicesTest,
                          public ::testing::WithParamInterface<Method> {};

TEST_P(MalformedCallTest, IsInvalidAndNeverReachesTheStore) {
  const grpc::Status status =
      service_.CallWithBytes(PathOf(GetParam()), "\xFF\xFF\xFF");

  EXPECT_THAT(
      FromGrpcStatus(status),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("malformed ")));
}

std::vector<Method> MethodsOfClients() {
  std::vector<Method> methods;
  for (const Method method : kAllMethods) {
    if (ServiceOf(method) != Service::kPeer) methods.push_back(method);
  }
  return methods;
}

INSTANTIATE_TEST_SUITE_P(MethodsOfClients, MalformedCallTest,
                         ::testing::ValuesIn(MethodsOfClients()));

TEST_F(TensorKvServicesTest, CallWithoutMessageNeverReachesTheStore) {
  EXPECT_CALL(service_.store, Init).Times(0);

  const grpc::Status status =
      service_.CallWithoutMessage(PathOf(Method::kInit));

  EXPECT_THAT(FromGrpcStatus(status),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "request: expected a message, got none"));
  EXPECT_EQ(service_.observer.WaitForHandled(1)[0].outcome.code,
            absl::StatusCode::kInvalidArgument);
}

TEST_F(TensorKvServicesTest, CallThatIsCancelledBeforeItsMessageIsNoError) {
  EXPECT_CALL(service_.store, Init).Times(0);

  const grpc::Status status =
      service_.CancelWithoutMessage(PathOf(Method::kInit));

  EXPECT_THAT(FromGrpcStatus(status), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(service_.observer.WaitForHandled(1)[0].outcome.code,
            absl::StatusCode::kCancelled);
}

TEST_F(TensorKvServicesTest, DeadlineReachesTheStoreALittleShorter) {
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

TEST_F(TensorKvServicesTest, CallWithoutDeadlineLeavesTheBoundToTheStore) {
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

TEST_F(TensorKvServicesTest, CallsThatBlockKeepNobodyElseWaiting) {
  Notification release;
  EXPECT_CALL(service_.store, Stat)
      .WillRepeatedly([&](const StatRequest& request, const CallContext&,
                          ReplyCallback<StatReply> done) {
        if (request.namespace_() == "slow") release.WaitForNotification();
        std::move(done)(StatReply());
      });
  EXPECT_CALL(service_.namespaces, KeepAlive)
      .WillRepeatedly(AnswerWith<KeepAliveReply>(KeepAliveReply()));
  std::vector<std::thread> slow;
  const auto stat = [](testing::Stubs& stub, const std::string& name) {
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

TEST_F(TensorKvServicesTest, PassedDeadlineReachesTheStoreAsCancellation) {
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

TEST_F(TensorKvServicesTest, ObserverSeesSizesOfAnsweredCalls) {
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

}  // namespace
}  // namespace tensorkv
