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
#include "service/store/partition_moves.h"
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

// Runs each task where it is submitted, unless it is to wait for RunHeld:
// nothing happens but what a test does.
class TasksAtOnce final : public TaskRunner {
 public:
  void Stop() override {}
  bool Submit(absl::string_view, Task&& task) override {
    ++num_tasks;
    if (holds) {
      held_.push_back(std::move(task));
    } else {
      std::move(task)();
    }
    return true;
  }
  void RunHeld() {
    holds = false;
    for (Task& task : std::exchange(held_, {})) std::move(task)();
  }

  int num_tasks = 0;
  bool holds = false;

 private:
  std::vector<Task> held_;
};

class WatchesTest : public ::testing::Test {
 protected:
  using WatchAnswer = Answer<absl::StatusOr<WatchReply>>;

  explicit WatchesTest(uint64_t budget_bytes = 1 << 30)
      : store_({.budget_bytes = budget_bytes, .pool = pool_}, &backend_,
               &alarms_) {}

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
  WatchAnswer Start(const WatchRequest& request, CallContext context = {}) {
    const WatchAnswer answer;
    store_.Watch(request, std::move(context),
                 [answer](absl::StatusOr<WatchReply> reply) {
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
  static WatchRequest ListingWatch() {
    WatchRequest request;
    request.set_prefix("");
    request.set_initial(true);
    return request;
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

  const std::shared_ptr<TasksAtOnce> pool_ = std::make_shared<TasksAtOnce>();
  testing::ScriptedBackend backend_;
  FakeAlarms alarms_;
  MemoryTensorStore store_;
};

TEST_F(WatchesTest, GathersChangesForAnInterval) {
  InitKeys(0, 1);
  const WatchAnswer answer = Start(Begin());
  Push("k0");
  alarms_.Advance(absl::ZeroDuration());
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

TEST_F(WatchesTest, IsForgottenThoughNothingChanges) {
  const WatchRequest request = Begin();
  InitKeys(0, 1);
  ASSERT_OK(AnswerTo(request));

  alarms_.Advance(absl::Minutes(6));

  EXPECT_EQ(alarms_.num_pending(), 0);
  EXPECT_THAT(AnswerTo(request), HasReason(Reason::kRevisionCompacted));
}

TEST_F(WatchesTest, WaitsWithoutAnyWorkOnceItHasListedWhatThereIs) {
  InitKeys(0, 3);
  WatchRequest request = ListingWatch();
  ASSERT_OK_AND_ASSIGN(const WatchReply listed, MakeNow(store_, request));
  EXPECT_THAT(listed.changes(), SizeIs(3));
  request.set_token(listed.token());
  const WatchAnswer answer = Start(request);
  alarms_.Advance(absl::Seconds(1));

  const int num_tasks = pool_->num_tasks;
  for (int i = 0; i < 10; ++i) alarms_.Advance(absl::Seconds(1));

  EXPECT_EQ(pool_->num_tasks, num_tasks);
  EXPECT_FALSE(answer.HasArrived());
}

// It would have to begin anew each time, though nothing has changed that it
// would be told.
TEST_F(WatchesTest, IsRememberedFromTheEndOfItsLastCall) {
  InitKeys(0, 1);
  WatchRequest request = Begin();
  request.set_prefix("quiet");
  const WatchAnswer answer = Start(request);
  alarms_.Advance(absl::Hours(1));
  ASSERT_TRUE(answer.HasArrived());
  ASSERT_OK_AND_ASSIGN(const WatchReply reply, answer.Wait());
  request.set_token(reply.token());
  Push("k0");
  alarms_.Advance(absl::Seconds(1));

  request.set_prefix("k");
  ASSERT_OK_AND_ASSIGN(const WatchReply next, AnswerTo(request));

  EXPECT_THAT(next.changes(), SizeIs(1));
}

// However long it gathers, it is told before its call has to end.
TEST_F(WatchesTest, GathersForHalfOfItsTimeAtMost) {
  InitKeys(0, 1);
  WatchRequest request = Begin();
  EncodeDuration(absl::Hours(1), request.mutable_interval());
  const WatchAnswer answer =
      Start(request, {.timeout = absl::Milliseconds(100)});
  Push("k0");

  alarms_.Advance(absl::Milliseconds(50));

  ASSERT_TRUE(answer.HasArrived());
  ASSERT_OK_AND_ASSIGN(const WatchReply reply, answer.Wait());
  EXPECT_THAT(reply.changes(), SizeIs(1));
}

TEST_F(WatchesTest, EndsWithWhatIsInTheLogAtItsEnd) {
  InitKeys(0, 1);
  WatchRequest request = Begin();
  request.set_prefix("other");
  const WatchAnswer answer = Start(request, {.timeout = absl::Seconds(1)});
  Push("k0");

  alarms_.Advance(absl::Seconds(2));

  ASSERT_OK_AND_ASSIGN(const WatchReply reply, answer.Wait());
  EXPECT_THAT(reply.changes(), SizeIs(0));
  EXPECT_GT(reply.revision(), 0);
  EXPECT_NE(reply.token(), request.token());
}

TEST_F(WatchesTest, IsCancelledAndEndsWithItsStore) {
  const WatchRequest request = Begin();
  const auto cancellation = std::make_shared<Cancellation>();
  const WatchAnswer cancelled = Start(request, {.cancellation = cancellation});
  const WatchAnswer ended = Start(request);

  cancellation->Cancel();
  EXPECT_THAT(cancelled.Wait().status(),
              testing::StatusIs(absl::StatusCode::kCancelled));
  store_.CancelWaits();
  EXPECT_FALSE(ended.Wait().ok());
  EXPECT_FALSE(Start(request).Wait().ok());
  EXPECT_EQ(Summary().calls_waiting, 0);
}

// Whoever is to look at them finds them gone.
TEST_F(WatchesTest, EndsOnceThoughItIsAboutToBeLookedAt) {
  InitKeys(0, 1);
  const WatchRequest request = Begin();
  const auto cancellation = std::make_shared<Cancellation>();
  const WatchAnswer cancelled = Start(request, {.cancellation = cancellation});
  const WatchAnswer ended = Start(request);
  Push("k0");
  alarms_.Advance(absl::Milliseconds(50));
  pool_->holds = true;
  alarms_.Advance(absl::Milliseconds(50));

  cancellation->Cancel();
  store_.CancelWaits();
  EXPECT_THAT(cancelled.Wait().status(),
              testing::StatusIs(absl::StatusCode::kCancelled));
  EXPECT_FALSE(ended.Wait().ok());
  pool_->RunHeld();

  EXPECT_EQ(Summary().calls_waiting, 0);
}

TEST_F(WatchesTest, RefusesTokensThatNoReplyHasGiven) {
  WatchRequest request = Begin();
  const std::string token = request.token();
  for (const std::string& forged :
       {token + "k", token + std::string(1 << 16, 'k'),
        std::string("\1\xff") + token.substr(2),
        token.substr(0, 18) + std::string(8, '\xff')}) {
    request.set_token(forged);
    EXPECT_THAT(Start(request).Wait().status(),
                testing::StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

// So keys that come from another server are told once they are this one's, and
// not before.
TEST_F(WatchesTest, BeginsAnewWhereTheServerOwnsOtherKeys) {
  PartitionMoves& moves = store_;
  const PartitionSet all = {.num_partitions = 1, .partitions = {0}};
  NamespaceSnapshot name_space = {.name = "default"};
  name_space.config = testing::ConfigOf(testing::Described(store_));
  name_space.uid = testing::Described(store_).uid();
  InitKeys(0, 1);
  const WatchRequest request = Begin();
  Push("k0");
  const WatchAnswer answer = Start(request);
  std::vector<KeySnapshot> keys(1);
  keys[0].key = "w";
  keys[0].value = Full({2}, 1);

  const auto arrival = moves.StartAdoption(all);
  ASSERT_OK(arrival->Begin(name_space));
  ASSERT_OK(arrival->Add(std::move(keys)));
  ASSERT_OK(arrival->Commit());
  alarms_.Advance(absl::Seconds(1));
  EXPECT_FALSE(answer.HasArrived());
  EXPECT_EQ(MakeNow(store_, ListingWatch())->changes_size(), 0);
  moves.Own(all);
  alarms_.Advance(RecentChanges::kPause);

  ASSERT_TRUE(answer.HasArrived());
  EXPECT_THAT(answer.Wait(), HasReason(Reason::kRevisionCompacted));
  EXPECT_EQ(MakeNow(store_, ListingWatch())->changes_size(), 1);
}

// Also of what was deleted: the new owner may have it again.
TEST_F(WatchesTest, TellsNothingOfKeysThatItDoesNotOwnAnyMore) {
  PartitionMoves& moves = store_;
  moves.Own({.num_partitions = 1, .partitions = {0}});
  InitKeys(0, 2);
  const WatchRequest request = Begin();
  Push("k0");
  DeleteRequest deletion;
  deletion.add_keys("k1");
  ASSERT_OK(MakeNow(store_, deletion));
  const WatchAnswer answer = Start(request);
  alarms_.Advance(absl::Milliseconds(50));

  moves.Own({.num_partitions = 1});
  EXPECT_EQ(MakeNow(store_, ListingWatch())->changes_size(), 0);
  const auto now = Start([&] {
    WatchRequest at_once = request;
    EncodeDuration(absl::ZeroDuration(), at_once.mutable_interval());
    EncodeDuration(absl::ZeroDuration(), at_once.mutable_max_wait());
    return at_once;
  }());
  alarms_.Advance(absl::Milliseconds(50));

  ASSERT_OK_AND_ASSIGN(const WatchReply reply, now.Wait());
  EXPECT_THAT(reply.changes(), SizeIs(0));
  EXPECT_THAT(answer.Wait(), HasReason(Reason::kRevisionCompacted));
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
  EXPECT_FALSE(reply.has_more());
}

// Those who change keys look at as much, whoever watches, and so does who tells
// watches of it.
TEST_F(WatchesTest, CostsWritersTheSameForAnyNumberOfWatches) {
  InitKeys(0, 100);
  std::vector<WatchAnswer> waiting;
  const auto looks_of_push = [&] {
    const uint64_t before = num_looks;
    Push("k1");
    alarms_.Advance(absl::Milliseconds(100));
    store_.FenceReads();  // wakes all calls that wait for keys or rounds
    return num_looks - before;
  };
  const uint64_t without = looks_of_push();
  const WatchRequest request = Begin();
  WatchRequest other = request;
  other.set_prefix("other");
  std::vector<WatchAnswer> others;
  for (int i = 0; i < 1000; ++i) {
    waiting.push_back(Start(request));
    others.push_back(Start(other));
  }

  EXPECT_EQ(looks_of_push(), without);

  for (const WatchAnswer& answer : others) EXPECT_FALSE(answer.HasArrived());
  for (const WatchAnswer& answer : waiting) {
    ASSERT_TRUE(answer.HasArrived());
    ASSERT_OK_AND_ASSIGN(const WatchReply reply, answer.Wait());
    EXPECT_THAT(reply.changes(), SizeIs(1));
  }
}

// Who changes a value that a snapshot has keeps that, for one as for many.
TEST_F(WatchesTest, CostsWritersTheSameForAnyNumberOfWatchesAndSnapshots) {
  InitKeys(0, 100);
  const auto take_snapshots = [this](int count) {
    CreateSnapshotRequest request;
    request.set_series("s");
    for (int i = 0; i < count; ++i) ASSERT_OK(MakeNow(store_, request));
  };
  const auto looks_of_push = [this] {
    const uint64_t before = num_looks;
    Push("k1");
    alarms_.Advance(absl::Milliseconds(100));
    store_.FenceReads();  // wakes all calls that wait for keys or rounds
    return num_looks - before;
  };
  const uint64_t with_none = looks_of_push();
  take_snapshots(1);
  const uint64_t with_one = looks_of_push();
  take_snapshots(10'000);
  WatchRequest request = Begin();
  request.set_series("s");
  WatchRequest other = request;
  other.set_prefix("other");
  other.set_series("other");
  std::vector<WatchAnswer> waiting;
  std::vector<WatchAnswer> others;
  for (int i = 0; i < 1000; ++i) {
    waiting.push_back(Start(request));
    others.push_back(Start(other));
  }

  EXPECT_EQ(looks_of_push(), with_one);
  EXPECT_EQ(looks_of_push(), with_none);

  EXPECT_LE(with_one, 8);
  for (const WatchAnswer& answer : waiting) EXPECT_TRUE(answer.HasArrived());
  for (const WatchAnswer& answer : others) EXPECT_FALSE(answer.HasArrived());
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
