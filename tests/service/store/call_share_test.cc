// What calls take of their callers' quotas, and how long.

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/task_pool.h"
#include "gtest/gtest.h"
#include "service/store/memory_tensor_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::ScriptedBackend;

// Keeps tasks until they are told to run.
class HeldTasks final : public TaskRunner {
 public:
  void Stop() override {}
  bool Submit(absl::string_view, Task&& task) override {
    tasks_.push_back(std::move(task));
    return true;
  }
  bool is_empty() const { return tasks_.empty(); }
  void RunAll() {
    while (!tasks_.empty()) {
      for (Task& task : std::exchange(tasks_, {})) std::move(task)();
    }
  }

 private:
  std::vector<Task> tasks_;
};

TEST(CallShareTest, IsKeptWhileTheCallWaitsForAThreadButNotForOthers) {
  const auto tasks = std::make_shared<HeldTasks>();
  ScriptedBackend backend;
  FakeAlarms alarms;
  MemoryTensorStore store({.pool = tasks}, &backend, &alarms);
  ASSERT_OK(testing::MakeNow(
      store, testing::UpdateOf("", {.gradient_guard = {.max_norm = 1e9}},
                               {"gradient_guard"})));
  const Tensor large = *Tensor::Filled(DType::kF32, Shape({1 << 20}), 1);
  InitRequest init;
  init.entries.push_back({"k", large});
  PushRequest push;
  push.entries.push_back({.key = "k", .tensor = large});
  PullRequest pull;
  pull.entries = {{"later"}};
  pull.wait_for_keys = true;

  bool has_ended = false;
  const auto done = [&has_ended](const auto& reply) {
    EXPECT_OK(reply);
    has_ended = true;
  };
  std::weak_ptr<int> share;
  const auto give = [&share](std::shared_ptr<int> given) {
    share = given;
    return CallContext{.share = given};
  };
  using Start = std::function<void(CallContext)>;
  for (const Start& start :
       {Start([&](CallContext context) { store.Init(init, context, done); }),
        Start([&](CallContext context) { store.Push(push, context, done); })}) {
    has_ended = false;
    {
      const auto given = std::make_shared<int>();
      start(give(given));
    }
    EXPECT_FALSE(has_ended);
    EXPECT_FALSE(share.expired());
    tasks->RunAll();
    EXPECT_TRUE(has_ended);
    EXPECT_TRUE(share.expired());
  }
  {
    const auto given = std::make_shared<int>();
    store.Pull(pull, give(given), [](const auto&) {});
  }
  EXPECT_TRUE(share.expired());

  // A watch waits at its caller's expense.
  WatchRequest watch;
  watch.set_prefix("");
  watch.set_token(testing::MakeNow(store, watch)->token());
  {
    const auto given = std::make_shared<int>();
    store.Watch(watch, give(given), [](const auto&) {});
  }
  EXPECT_FALSE(share.expired());
  store.CancelWaits();
  EXPECT_TRUE(share.expired());
}

}  // namespace
}  // namespace tensorkv
