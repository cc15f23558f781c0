// Watches: when they are told, what the server remembers, and what that costs
// those who change keys.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/answer.h"
#include "base/task_pool.h"
#include "contract/duration.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/keyspace/watch/recent_changes.h"
#include "service/store/looks.h"
#include "service/store/memory_tensor_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Full;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::InitNow;
using ::tensorkv::testing::MakeNow;
using ::testing::SizeIs;

// Runs each task where it is submitted: nothing happens but what a test does.
class TasksAtOnce final : public TaskRunner {
 public:
  void Stop() override {}
  bool Submit(absl::string_view, Task&& task) override {
    std::move(task)();
    return true;
  }
};

class WatchesTest : public ::testing::Test {
 protected:
  using WatchAnswer = Answer<absl::StatusOr<WatchReply>>;

  explicit WatchesTest(uint64_t budget_bytes = 1 << 30)
      : store_({.budget_bytes = budget_bytes,
                .pool = std::make_shared<TasksAtOnce>()},
               &backend_, &alarms_) {}

  // The request that goes on with a watch of all keys from now on.
  WatchRequest Begin(bool initial = false) {
    WatchRequest request;
    request.set_prefix("");
    request.set_initial(initial);
    const auto reply = MakeNow(store_, request);
    EXPECT_OK(reply.status());
    request.set_token(reply->token());
    return request;
  }
  WatchAnswer Start(const WatchRequest& request) {
    const WatchAnswer answer;
    store_.Watch(request, {}, [answer](absl::StatusOr<WatchReply> reply) {
      answer.Set(std::move(reply));
    });
    return answer;
  }
  // The answer that the call has once an interval has passed.
  absl::StatusOr<WatchReply> AnswerTo(const WatchRequest& request) {
    const WatchAnswer answer = Start(request);
    alarms_.Advance(absl::Milliseconds(100));
    if (!answer.HasArrived()) return absl::UnavailableError("none yet");
    return answer.Wait();
  }
  void InitKeys(int begin, int end) {
    for (int i = begin; i < end; ++i) {
      ASSERT_OK(
          InitNow(store_, {.entries = {{absl::StrCat("k", i), Full({2}, 1)}}}));
    }
  }
  void Push(const std::string& key) {
    const auto reply = Await<PushReply>([&](auto done) {
      store_.Push({.entries = {{.key = key, .tensor = Full({2}, 1)}}}, {},
                  std::move(done));
    });
    ASSERT_OK(reply.status());
  }
  NamespaceSummary Summary() { return store_.Summaries().front(); }

  testing::ScriptedBackend backend_;
  FakeAlarms alarms_;
  MemoryTensorStore store_;
};

TEST_F(WatchesTest, GathersChangesForAnInterval) {
  InitKeys(0, 1);
  const WatchAnswer answer = Start(Begin());
  Push("k0");
  alarms_.Advance(absl::Milliseconds(99));
  EXPECT_FALSE(answer.HasArrived());
  Push("k0");
  alarms_.Advance(absl::Milliseconds(1));

  ASSERT_TRUE(answer.HasArrived());
  ASSERT_OK_AND_ASSIGN(const WatchReply reply, answer.Wait());
  ASSERT_THAT(reply.changes(), SizeIs(1));
  EXPECT_EQ(reply.changes(0).version(), 3);
  EXPECT_EQ(Summary().changes_told, 1);
}

TEST_F(WatchesTest, TellsAtOnceWhoHasWaitedForLonger) {
  InitKeys(0, 1);
  const WatchAnswer answer = Start(Begin());
  alarms_.Advance(absl::Seconds(1));
  EXPECT_FALSE(answer.HasArrived());

  Push("k0");
  alarms_.Advance(RecentChanges::kPause);

  EXPECT_TRUE(answer.HasArrived());
}

TEST_F(WatchesTest, IsForgottenMinutesAfterTheLastCall) {
  const WatchRequest request = Begin();
  InitKeys(0, 1);
  ASSERT_OK(AnswerTo(request));
  alarms_.Advance(absl::Minutes(4));
  Push("k0");
  alarms_.Advance(absl::Seconds(1));
  ASSERT_OK(AnswerTo(request));

  alarms_.Advance(absl::Minutes(6));
  Push("k0");
  alarms_.Advance(absl::Seconds(1));

  EXPECT_THAT(AnswerTo(request), HasReason(Reason::kRevisionCompacted));
  EXPECT_EQ(Summary().watches_compacted, 1);
  EXPECT_EQ(alarms_.num_pending(), 0);
}

TEST_F(WatchesTest, AnswersWhenItsWaitIsOver) {
  WatchRequest request = Begin();
  EncodeDuration(absl::Seconds(7), request.mutable_max_wait());
  const WatchAnswer answer = Start(request);
  EXPECT_EQ(
      Summary().waits[static_cast<size_t>(WaitReason::kChange)].calls_waiting,
      1);

  alarms_.Advance(absl::Seconds(8));

  ASSERT_OK_AND_ASSIGN(const WatchReply reply, answer.Wait());
  EXPECT_THAT(reply.changes(), SizeIs(0));
  EXPECT_EQ(reply.token(), request.token());
}

// Those who change keys look at as much, whoever watches.
TEST_F(WatchesTest, CostsWritersTheSameForAnyNumberOfWatches) {
  InitKeys(0, 100);
  std::vector<WatchAnswer> waiting;
  const auto looks_of_push = [&] {
    const uint64_t before = num_looks;
    Push("k1");
    return num_looks - before;
  };
  const uint64_t without = looks_of_push();
  const WatchRequest request = Begin();
  for (int i = 0; i < 1000; ++i) waiting.push_back(Start(request));

  EXPECT_EQ(looks_of_push(), without);

  alarms_.Advance(absl::Milliseconds(100));
  for (const WatchAnswer& answer : waiting) {
    ASSERT_TRUE(answer.HasArrived());
    ASSERT_OK_AND_ASSIGN(const WatchReply reply, answer.Wait());
    EXPECT_THAT(reply.changes(), SizeIs(1));
  }
}

class SmallWatchesTest : public WatchesTest {
 protected:
  // What is remembered is bounded by 64 KiB then.
  SmallWatchesTest() : WatchesTest(/*budget_bytes=*/4 << 20) {}
};

// A watch that does not ask holds nothing up: it is told to begin anew.
TEST_F(SmallWatchesTest, BeginsAnewWhereTooMuchHasChanged) {
  const WatchRequest request = Begin();
  InitKeys(0, 1000);

  alarms_.Advance(absl::Milliseconds(10));

  EXPECT_THAT(AnswerTo(request), HasReason(Reason::kRevisionCompacted));
  const WatchRequest anew = Begin();
  Push("k3");
  ASSERT_OK_AND_ASSIGN(const WatchReply reply, AnswerTo(anew));
  EXPECT_EQ(reply.changes(reply.changes_size() - 1).key(), "k3");
}

}  // namespace
}  // namespace tensorkv
