#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "base/alarms.h"
#include "base/mutex.h"
#include "base/task_pool.h"
#include "contract/message_writer.h"
#include "contract/requests.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "service/rpc/handlers.h"
#include "service/store/call_dispatch.h"
#include "service/store/memory_tensor_store.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

// Counts the tasks that the store gives to other threads.
class CountingTasks final : public TaskRunner {
 public:
  void Stop() override { pool_.Stop(); }
  bool Submit(absl::string_view owner, Task&& task) override {
    ++num_tasks_;
    return pool_.Submit(owner, std::move(task));
  }
  int num_tasks() const { return num_tasks_; }

 private:
  TaskPool pool_{2};
  std::atomic<int> num_tasks_ = 0;
};

grpc::ByteBuffer ToBytes(const EncodedMessage& message) {
  std::string bytes;
  for (const EncodedMessage::Piece& piece : message.pieces()) {
    bytes.append(piece.data, piece.size_bytes);
  }
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

// A server's calls with a key of 1 MiB, whose rule is the parameter.
class PushHopsTest : public ::testing::TestWithParam<const char*> {
 protected:
  PushHopsTest() {
    SetRuleRequest rule;
    rule.mutable_rule()->set_name(GetParam());
    EXPECT_TRUE(calls_.MakeAndWait(rule).ok());
    EXPECT_TRUE(
        calls_.MakeAndWait(InitRequest{.entries = {{"k", value_}}}).ok());
  }

  // Makes the call, and returns how often it went to another thread.
  int HopsOf(Method method, grpc::ByteBuffer bytes) {
    const Handler& handler = handlers_.of(method);
    const int num_before = tasks_->num_tasks();
    const int num_on_the_way =
        handler.ThreadsFor(bytes) == Threads::kGrpc ? 0 : 1;
    Notification done;
    handler.run(&bytes, {}, [&](absl::StatusOr<grpc::ByteBuffer> reply) {
      EXPECT_TRUE(reply.ok()) << reply.status();
      done.Notify();
    });
    done.WaitForNotification();
    return num_on_the_way + tasks_->num_tasks() - num_before;
  }

  const Tensor value_ = *Tensor::Filled(DType::kF32, Shape({256 << 10}), 1);
  CpuBackend backend_{1};
  SteadyAlarms alarms_;
  const std::shared_ptr<CountingTasks> tasks_ =
      std::make_shared<CountingTasks>();
  MemoryTensorStore store_{{.pool = tasks_}, &backend_, &alarms_};
  const CallDispatch calls_{
      {.store = &store_, .namespaces = &store_, .staging = &store_}};
  const Incarnation incarnation_{1};
  const Handlers handlers_{{.calls = &calls_, .incarnation = &incarnation_},
                           {}};
};

TEST_P(PushHopsTest, PushOf1MiBTakesOneHopAtMost) {
  PushRequest push;
  push.call_id = CallId{.client_id = std::string(64, 'c'), .sequence = 1};
  push.entries.push_back({.key = "k", .tensor = value_});

  EXPECT_LE(HopsOf(Method::kPush, ToBytes(EncodeRequest(push))), 1);
}

INSTANTIATE_TEST_SUITE_P(Rules, PushHopsTest,
                         ::testing::Values("assign", "accumulate", "sgd",
                                           "adam"));

}  // namespace
}  // namespace tensorkv
