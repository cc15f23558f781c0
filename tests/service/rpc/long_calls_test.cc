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
  return {
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
    testing::MockNamespaceAdmin& namespaces = service_.namespaces;
    ON_CALL(service_.store, Stat)
        .WillByDefault(testing::AnswerWith<StatReply>(StatReply()));
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

}  // namespace
}  // namespace tensorkv
