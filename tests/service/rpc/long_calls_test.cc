// Calls that take long, given up or not, hold up no others.

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/task_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/rpc/message_limits.h"
#include "tests/service/rpc/live_service.h"
#include "tests/testing/background.h"

namespace tensorkv {
namespace {

using testing::Background;
using ::testing::Return;

using Stub = testing::Stubs;

// A kind of call that takes long.
struct LongCall {
  std::string name;
  std::function<grpc::Status(Stub&, grpc::ClientContext&)> make;
};

#define TENSORKV_LONG_CALL(verb)                          \
  LongCall {                                              \
#verb, [](Stub& stub, grpc::ClientContext& context) {   \
      v1::verb##Response reply;                             \
      return stub.verb(&context, v1::verb##Request(), &reply); \
    } \
  }

std::vector<LongCall> LongCalls() {
  std::vector<LongCall> calls = {
      TENSORKV_LONG_CALL(UnsetRule),
      TENSORKV_LONG_CALL(UnsetMultipliers),
      TENSORKV_LONG_CALL(SetHyperparameters),
      TENSORKV_LONG_CALL(ListCheckpoints),
      TENSORKV_LONG_CALL(SaveCheckpoint),
      TENSORKV_LONG_CALL(RestoreCheckpoint),
      TENSORKV_LONG_CALL(VerifyCheckpoint),
      TENSORKV_LONG_CALL(DeleteCheckpoint),
      TENSORKV_LONG_CALL(ResizeCluster),
      TENSORKV_LONG_CALL(BeginMove),
      TENSORKV_LONG_CALL(SendMovePart),
      TENSORKV_LONG_CALL(CommitMove),
  };
  calls.push_back({"SetRule", [](Stub& stub, grpc::ClientContext& context) {
                     v1::SetRuleRequest request;
                     request.mutable_rule()->set_name("sgd");
                     v1::SetRuleResponse reply;
                     return stub.SetRule(&context, request, &reply);
                   }});
  calls.push_back(
      {"SetMultipliers", [](Stub& stub, grpc::ClientContext& context) {
         v1::SetMultipliersRequest request;
         request.mutable_multipliers();
         v1::SetMultipliersResponse reply;
         return stub.SetMultipliers(&context, request, &reply);
       }});
  calls.push_back({"Stat", [](Stub& stub, grpc::ClientContext& context) {
                     v1::StatRequest request;
                     request.add_keys("k");
                     request.set_compute_digests(true);
                     v1::StatResponse reply;
                     return stub.Stat(&context, request, &reply);
                   }});
  return calls;
}
#undef TENSORKV_LONG_CALL

// Where calls wait until it opens.
class Door {
 public:
  void Pass() {
    MutexLock lock(&mutex_);
    ++num_come_;
    changed_.SignalAll();
    while (!is_open_) changed_.Wait(&mutex_);
  }
  void Await(int count) {
    MutexLock lock(&mutex_);
    while (num_come_ < count) changed_.Wait(&mutex_);
  }
  void Open() {
    MutexLock lock(&mutex_);
    is_open_ = true;
    changed_.SignalAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int num_come_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_open_ ABSL_GUARDED_BY(mutex_) = false;
};

class LongCallsTest : public ::testing::TestWithParam<LongCall> {
 protected:
  // Of each kind as many wait as there are threads for any.
  static constexpr int kCalls = 4;

  LongCallsTest() {
    using ::testing::_;
    service_.when_server_is_asked = [this] { door_.Pass(); };
    const auto waits = [this]<typename Reply>(Reply reply) {
      return [this, reply](auto, auto, ReplyCallback<Reply> done) {
        door_.Pass();
        std::move(done)(reply);
      };
    };
    testing::MockNamespaceAdmin& namespaces = service_.namespaces;
    ON_CALL(namespaces, SetRule).WillByDefault(waits(SetRuleReply()));
    ON_CALL(namespaces, UnsetRule).WillByDefault(waits(UnsetRuleReply()));
    ON_CALL(namespaces, SetMultipliers)
        .WillByDefault(waits(SetMultipliersReply()));
    ON_CALL(namespaces, UnsetMultipliers)
        .WillByDefault(waits(UnsetMultipliersReply()));
    ON_CALL(namespaces, SetHyperparameters)
        .WillByDefault(waits(SetHyperparametersReply()));
    ON_CALL(service_.store, Stat)
        .WillByDefault([this](const StatRequest& request,
                              const CallContext&) -> absl::StatusOr<StatReply> {
          if (request.compute_digests()) door_.Pass();
          return StatReply();
        });
    ON_CALL(service_.store, List).WillByDefault(Return(ListReply()));
    ON_CALL(namespaces, DescribeNamespace)
        .WillByDefault(Return(DescribeNamespaceReply()));
    ON_CALL(namespaces, Join)
        .WillByDefault(testing::AnswerWith<JoinReply>(JoinReply()));
  }
  ~LongCallsTest() override { door_.Open(); }

  // Whether those calls are answered that are not for gRPC's threads, and do
  // not take long.
  template <typename Request, typename Response>
  static bool IsAnswered(Stub& stub,
                         grpc::Status (Stub::*verb)(grpc::ClientContext*,
                                                    const Request&,
                                                    Response*)) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(30));
    Response reply;
    return (stub.*verb)(&context, Request(), &reply).ok();
  }

  testing::LiveService service_;
  Door door_;
};

INSTANTIATE_TEST_SUITE_P(, LongCallsTest, ::testing::ValuesIn(LongCalls()),
                         [](const auto& info) { return info.param.name; });

// Each on a connection of its own, as no connection takes all threads.
TEST_P(LongCallsTest, LeaveOthersTheirThreadsAlsoOnceTheyAreGivenUp) {
  std::array<grpc::ClientContext, kCalls> contexts;
  std::vector<std::unique_ptr<Stub>> stubs;
  for (int i = 0; i < kCalls; ++i) stubs.push_back(service_.Connect());
  const auto call = [&](int i) {
    return Background([&contexts, &stubs, i] {
      return GetParam().make(*stubs[i], contexts[i]);
    });
  };
  Background first = call(0);
  Background second = call(1);
  Background third = call(2);
  Background fourth = call(3);
  door_.Await(kCalls);
  for (grpc::ClientContext& context : contexts) context.TryCancel();

  const std::unique_ptr<Stub> stub = service_.Connect();
  EXPECT_TRUE(IsAnswered(*stub, &Stub::List));
  EXPECT_TRUE(IsAnswered(*stub, &Stub::DescribeNamespace));
  EXPECT_TRUE(IsAnswered(*stub, &Stub::Join));
  EXPECT_TRUE(IsAnswered(*stub, &Stub::Stat));

  door_.Open();
}

// The last value of a field counts, whatever lies between.
TEST(HasFieldSetTest, SeesWhatTheMessageSays) {
  const auto is_set = [](const std::string& bytes) {
    const grpc::Slice slice(bytes);
    return HasFieldSet(v1::StatRequest::kComputeDigestsFieldNumber,
                       grpc::ByteBuffer(&slice, 1));
  };
  v1::StatRequest request;
  EXPECT_FALSE(is_set(request.SerializeAsString()));
  request.set_namespace_("n");
  request.add_keys(std::string(300, 'k'));
  const std::string without = request.SerializeAsString();
  EXPECT_FALSE(is_set(without));
  request.set_compute_digests(true);
  const std::string with = request.SerializeAsString();
  EXPECT_TRUE(is_set(with));
  EXPECT_TRUE(is_set(with + without));
  const char tag = v1::StatRequest::kComputeDigestsFieldNumber << 3;
  EXPECT_FALSE(is_set(with + std::string{tag, '\0'}));
  EXPECT_FALSE(is_set(without + std::string{tag}));
}

}  // namespace
}  // namespace tensorkv
