// The verbs of a WorkerClient for callers that do not wait, and a Pipeline over
// them.

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "client/local/local_connection.h"
#include "client/pipeline.h"
#include "client/worker_client.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scripted_worker.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::EntriesOf;
using ::tensorkv::testing::Full;
using ::tensorkv::testing::IsOk;
using ::tensorkv::testing::RoundFailed;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::StatusOfReason;
using ::testing::ElementsAre;

template <typename Reply>
auto Keep(std::promise<absl::StatusOr<Reply>>& promise) {
  return [&promise](absl::StatusOr<Reply> reply) {
    promise.set_value(std::move(reply));
  };
}

class StartedWorkerTest : public testing::ScriptedWorkerTest {
 protected:
  StartedWorkerTest() {
    environment_.run_after = [this](absl::Duration pause, const auto&,
                                    absl::AnyInvocable<void() &&> then) {
      now_ += pause;
      threads_.Run(std::move(then));
    };
  }

  CallThreads threads_{4};
};

// By the name of a verb, which begins and awaits it.
TEST_F(StartedWorkerTest, RecoversAsTheVerbThatWaits) {
  const std::vector<absl::Status> failures = {
      RoundFailed(), StatusOfReason(Reason::kLeaseLost, "lost"),
      absl::UnavailableError("down")};
  for (const absl::Status& failure : failures) {
    SCOPED_TRACE(failure);
    const std::unique_ptr<WorkerClient> worker = JoinedWorker({failure});
    std::promise<absl::StatusOr<PushReply>> pushed;
    std::promise<absl::StatusOr<PullReply>> pulled, both;

    worker->StartPush(7, EntriesOf({"w"}), {}, threads_, Keep(pushed));
    EXPECT_THAT(pushed.get_future().get(), IsOk());
    script_.statuses = {failure};
    worker->StartPull({"w"}, {}, threads_, Keep(pulled));
    EXPECT_THAT(pulled.get_future().get(), IsOk());
    EXPECT_EQ(worker->step(), 8u);
    script_.statuses = {failure};
    worker->StartPushPull(7, EntriesOf({"w"}), {}, threads_, Keep(both));
    EXPECT_THAT(both.get_future().get(), IsOk());
  }
}

TEST_F(StartedWorkerTest, PipelineTakesWhatAWorkersVerbsTake) {
  const std::unique_ptr<WorkerClient> worker = JoinedWorker({RoundFailed()});
  Pipeline pipeline(worker.get());
  PullRequest of_version;
  of_version.entries = {{.key = "w", .min_version = 3}};

  EXPECT_THAT(pipeline.PushPull("w", Full({2}, 1), {.step = 7}).get(), IsOk());
  EXPECT_THAT(script_.verbs, ElementsAre("PushPull", "Push", "Pull"));
  EXPECT_THAT(pipeline.Push("w", Full({2}, 1), {.with_tokens = true}).get(),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(pipeline.Pull(of_version).get(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// A group of one in a store of this process, whose key "w" adds up.
class StartedPushesTest : public ::testing::Test {
 protected:
  StartedPushesTest() {
    auto client = std::make_unique<Client>(std::make_unique<LocalConnection>(),
                                           ClientOptions{.name_space = "n"});
    EXPECT_OK(client->CreateNamespace(
        "n", {.mode = Mode::kSync,
              .num_workers = 1,
              .rule = ParseRuleSpec("accumulate").value()}));
    EXPECT_OK(client->Init("w", Full({1}, 0)));
    EXPECT_OK(client->Init("v", Full({2}, 0)));
    worker_ = WorkerClient::Join(std::move(client), {.name = "a"}).value();
  }

  double Sum(const std::string& key) {
    return testing::ElementsOf(worker_->client().Pull(key)->tensor).front();
  }

  std::unique_ptr<WorkerClient> worker_;
};

TEST_F(StartedPushesTest, StepsOfAKeyArePushedInTheOrderInWhichTheyWereBegun) {
  constexpr Step kNumSteps = 200;
  {
    Pipeline pipeline(worker_.get(), {.max_in_flight = 64});
    CallThreads threads(4);
    std::vector<std::promise<absl::StatusOr<PushReply>>> pushed(kNumSteps);
    std::vector<std::future<absl::StatusOr<Value>>> values;
    for (Step step = 1; step <= kNumSteps; ++step) {
      worker_->StartPush(step, EntriesOf({"v"}), {}, threads,
                         Keep(pushed[step - 1]));
      values.push_back(pipeline.PushPull("w", Full({1}, 1), {.step = step}));
    }
    for (Step step = 1; step <= kNumSteps; ++step) {
      ASSERT_THAT(pushed[step - 1].get_future().get(), IsOk()) << step;
      ASSERT_THAT(values[step - 1].get(), IsOk()) << step;
    }
  }

  EXPECT_EQ(Sum("w"), kNumSteps);
}

TEST_F(StartedPushesTest, ThreadsThatPushAKeyLoseNoStep) {
  constexpr Step kNumSteps = 400;
  Mutex mutex;
  Step last = 0;
  const auto push = [&] {
    CallThreads threads(1);
    for (;;) {
      std::promise<absl::StatusOr<PullReply>> pushed;
      {
        // Begun in the order of steps; what comes of them is awaited beside.
        MutexLock lock(&mutex);
        if (last == kNumSteps) return;
        std::vector<PushEntry> entries(1);
        entries[0].key = "w";
        entries[0].tensor = Full({1}, 1);
        worker_->StartPushPull(++last, std::move(entries), {}, threads,
                               Keep(pushed));
      }
      EXPECT_THAT(pushed.get_future().get(), IsOk());
    }
  };
  std::vector<std::thread> pushers;
  for (int i = 0; i < 4; ++i) pushers.emplace_back(push);
  for (std::thread& pusher : pushers) pusher.join();

  EXPECT_EQ(Sum("w"), kNumSteps);
}

}  // namespace
}  // namespace tensorkv
