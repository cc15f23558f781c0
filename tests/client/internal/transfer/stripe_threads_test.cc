#include "client/internal/transfer/stripe_threads.h"

#include <atomic>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// Meets as many others as expected; returns only when all are there.
class Meeting {
 public:
  explicit Meeting(int size) : num_missing_(size) {}

  void Attend() {
    MutexLock lock(&mutex_);
    --num_missing_;
    changed_.SignalAll();
    while (num_missing_ > 0) changed_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int num_missing_ ABSL_GUARDED_BY(mutex_);
};

TEST(StripeThreadsTest, TeamIsTheCallerAndIdleThreads) {
  StripeThreads pool(3);

  EXPECT_EQ(pool.Assemble(1).size(), 1);
  EXPECT_EQ(pool.Assemble(3).size(), 3);
  EXPECT_EQ(pool.Assemble(9).size(), 4);
}

TEST(StripeThreadsTest, PoolWithoutThreadsIsTheCallerAlone) {
  StripeThreads pool(0);

  EXPECT_EQ(pool.Assemble(4).size(), 1);
}

TEST(StripeThreadsTest, TeamsGetWhatOthersHaveLeft) {
  StripeThreads pool(3);

  const StripeTeam first = pool.Assemble(3);
  std::optional<StripeTeam> second(pool.Assemble(3));
  EXPECT_EQ(second->size(), 2);
  EXPECT_EQ(pool.Assemble(3).size(), 1);

  second.reset();
  EXPECT_EQ(pool.Assemble(3).size(), 2);
}

TEST(StripeThreadsTest, MovedTeamIsReleasedOnce) {
  StripeThreads pool(2);

  {
    StripeTeam team = pool.Assemble(3);
    const StripeTeam moved = std::move(team);
    EXPECT_EQ(moved.size(), 3);
    EXPECT_EQ(pool.Assemble(3).size(), 1);
  }

  EXPECT_EQ(pool.Assemble(9).size(), 3);
}

TEST(StripeThreadsTest, EachIndexIsWorkedOnOnceOnAThreadOfItsOwn) {
  StripeThreads pool(3);
  StripeTeam team = pool.Assemble(4);
  Meeting meeting(4);
  Mutex mutex;
  std::multiset<int> indices;
  std::set<std::thread::id> threads;

  team.Run([&](int index) {
    meeting.Attend();
    MutexLock lock(&mutex);
    indices.insert(index);
    threads.insert(std::this_thread::get_id());
  });

  EXPECT_THAT(indices, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(threads, SizeIs(4));
}

TEST(StripeThreadsTest, CallerWorksOnTheFirst) {
  StripeThreads pool(1);
  StripeTeam team = pool.Assemble(2);
  std::thread::id first;

  team.Run([&](int index) {
    if (index == 0) first = std::this_thread::get_id();
  });

  EXPECT_EQ(first, std::this_thread::get_id());
}

TEST(StripeThreadsTest, TeamsRunAtTheSameTime) {
  StripeThreads pool(2);
  Meeting meeting(4);
  const auto run = [&] {
    StripeTeam team = pool.Assemble(2);
    EXPECT_EQ(team.size(), 2);
    team.Run([&](int) { meeting.Attend(); });
  };

  std::thread other(run);
  run();
  other.join();
}

TEST(StripeThreadsTest, TeamRunsAgain) {
  StripeThreads pool(2);
  StripeTeam team = pool.Assemble(3);
  std::atomic<int> num_runs = 0;

  for (int i = 0; i < 100; ++i) team.Run([&](int) { ++num_runs; });

  EXPECT_EQ(num_runs, 300);
}

}  // namespace
}  // namespace tensorkv
