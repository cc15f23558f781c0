// What the revision of a namespace says that is told.

#include <cstdint>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/store/init_now.h"
#include "tests/service/store/scripted_store.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;

using ToldRevisionTest = testing::ScriptedStoreTest;

TEST_F(ToldRevisionTest, RisesOnceByACallThatChangesAnything) {
  const auto revision = [&] { return testing::Described(store_).revision(); };
  const uint64_t before = revision();

  ASSERT_OK(Init("a", 1));
  ASSERT_OK(Init("b", 1));
  EXPECT_EQ(revision(), before + 2);

  PushRequest both = PushOf("a", 2);
  both.entries.push_back(PushOf("b", 3).entries[0]);
  ASSERT_OK(Push(both));
  EXPECT_EQ(revision(), before + 3);

  EXPECT_FALSE(Push(PushOf("c", 2)).ok());
  ASSERT_OK(Pull(PullOf("a")));
  EXPECT_EQ(revision(), before + 3);
  ASSERT_OK(testing::MakeNow(store_, testing::DeleteOf({"a", "b"})));
  EXPECT_EQ(revision(), before + 4);
}

// Whoever is told a revision finds all that was decided up to it.
TEST_F(ToldRevisionTest, IsToldWhenAllUpToItHasEnded) {
  ASSERT_OK(Init("w", 1));
  ASSERT_OK(Init("a", 1));
  const auto revision = [&] { return testing::Described(store_).revision(); };
  const uint64_t before = revision();
  backend_.Hold();
  std::thread pusher([this] { EXPECT_OK(Push(PushOf("w", 2))); });
  backend_.WaitUntilHeld();

  ASSERT_OK(testing::MakeNow(store_, testing::DeleteOf({"a"})));

  EXPECT_EQ(revision(), before);
  backend_.Release();
  pusher.join();
  EXPECT_EQ(revision(), before + 2);
}

// An update that fails leaves its revision unused, and so do the rounds that
// fail with one before.
TEST_F(ToldRevisionTest, OfWhatHasFailedIsToldToo) {
  CreateSyncNamespace(1);
  const auto revision = [&] {
    return testing::Described(store_, "sync").revision();
  };
  const uint64_t before = revision();
  backend_.Hold();
  std::thread pusher([this] { EXPECT_OK(Push(SyncPush(0, 1, 1))); });
  backend_.WaitUntilHeld();
  ASSERT_OK(Push(SyncPush(0, 2, 10)));
  EXPECT_EQ(revision(), before);

  backend_.FailApply(absl::InternalError("broken"));
  backend_.Release();
  pusher.join();
  EXPECT_THAT(Pull(SyncPull(0)), StatusIs(absl::StatusCode::kAborted));

  EXPECT_EQ(revision(), before + 2);
}

}  // namespace
}  // namespace tensorkv
