// What the client does where the system has no threads to give. Each test goes
// on from where the one before has left the threads of this process.

#include <pthread.h>

#include <atomic>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>

#include "base/mutex.h"
#include "base/scoped_blocking_call.h"
#include "client/canceller.h"
#include "client/internal/calls/wait_queue.h"
#include "client/internal/retry/retry_loop.h"
#include "client/internal/transfer/grpc_connection.h"
#include "client/internal/transfer/trimmed_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/call_verb.h"
#include "tests/client/fake_service.h"
#include "tests/client/scripted_worker.h"
#include "tests/client/starting_connection.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace {

// So many threads has the system to give; less than none if it was asked for
// more.
std::atomic<int> num_threads_left = 0;

}  // namespace

// This is what programs have instead of the library's: it starts the thread.
void std::thread::_M_start_thread(_State_ptr state, void (*)()) {
  const auto run = [](void* state) -> void* {
    _State_ptr(static_cast<_State*>(state))->_M_run();
    return nullptr;
  };
  if (num_threads_left-- <= 0 ||
      pthread_create(&_M_id._M_thread, nullptr, run, state.get()) != 0) {
    throw std::system_error(EAGAIN, std::generic_category());
  }
  [[maybe_unused]] _State* const is_the_threads = state.release();
}

namespace tensorkv {
namespace {

using ::tensorkv::testing::CallVerb;
using ::tensorkv::testing::FakeService;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::ScriptedWorkerTest;
using ::tensorkv::testing::StartingConnection;
using ::testing::Contains;

TEST(ThreadShortageTest, PauseIsASleep) {
  const RetryEnvironment environment = SystemRetryEnvironment();
  const absl::Duration start = environment.now();
  bool has_ended = false;

  environment.run_after(absl::Milliseconds(1), nullptr,
                        [&] { has_ended = true; });

  EXPECT_TRUE(has_ended);
  EXPECT_GE(environment.now() - start, absl::Milliseconds(1));
}

TEST(ThreadShortageTest, PoolSetsNoAlarm) {
  int num_alarms = 0;
  const TrimmedPool pool(
      64 << 20, absl::Seconds(10),
      [&](absl::Duration, const auto&, const auto&) { ++num_alarms; });

  pool.pool()->Allocate(8 << 20).value();

  EXPECT_EQ(num_alarms, 0);
}

using ThreadlessWorkerTest = ScriptedWorkerTest;

TEST_F(ThreadlessWorkerTest, DoesNotJoin) {
  EXPECT_THAT(Join({.name = "w1", .lease = kLongLease}),
              HasReason(Reason::kLimitReached));

  EXPECT_THAT(script_.verbs, Contains("Leave"));
}

TEST(ThreadShortageTest, CallFailsWithoutAThreadAndTakesOne) {
  FakeService service;
  StartingConnection connection(
      *GrpcConnection::Create({.target = service.Start()}));

  EXPECT_THAT(CallVerb("Pull", connection), HasReason(Reason::kLimitReached));
  num_threads_left = 1;
  EXPECT_OK(CallVerb("Pull", connection));
  EXPECT_LT(num_threads_left, 0) << "it has asked for more";

  num_threads_left = 0;
  EXPECT_OK(CallVerb("Pull", connection));
  EXPECT_LT(num_threads_left, 0) << "and asks again";
  service.Stop();
}

// Such as one that would wait for calls that end on its thread.
TEST(ThreadShortageTest, CallFailsWhereTheLastThreadBlocks) {
  absl::Status usable;
  Notification has_ended;

  SystemRetryEnvironment().run_after(absl::ZeroDuration(), nullptr, [&] {
    {
      const ScopedBlockingCall waits;
      usable = WaitQueue().status();
    }
    has_ended.Notify();
  });

  has_ended.WaitForNotification();
  EXPECT_THAT(usable, HasReason(Reason::kLimitReached));
}

TEST(ThreadShortageTest, WaitForOthersGoesOnOnceThereIsAThread) {
  const RetryEnvironment environment = SystemRetryEnvironment();
  const auto canceller = std::make_shared<Canceller>();
  std::optional<Canceller::Use> call(canceller);
  Notification waits, call_has_ended, has_ended;

  environment.run_after(absl::ZeroDuration(), nullptr, [&] {
    environment.run_after(absl::ZeroDuration(), nullptr, [&] {
      call.reset();
      call_has_ended.Notify();
    });
    num_threads_left = 0;
    waits.Notify();
    canceller->CancelAndWait();
    has_ended.Notify();
  });
  waits.WaitForNotification();
  while (num_threads_left == 0) std::this_thread::yield();
  num_threads_left = 1;

  call_has_ended.WaitForNotification();
  has_ended.WaitForNotification();
}

}  // namespace
}  // namespace tensorkv
