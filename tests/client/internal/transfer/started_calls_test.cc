// Calls of a connection that nobody waits for.

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "client/internal/retry/retrying_connection.h"
#include "client/internal/transfer/grpc_connection.h"
#include "contract/retry_delay.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/call_verb.h"
#include "tests/client/fake_service.h"
#include "tests/client/fake_stream_service.h"
#include "tests/client/scripted_connection.h"
#include "tests/client/starting_connection.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace started_calls_test {

using ::tensorkv::testing::CallVerb;
using ::tensorkv::testing::FakeService;
using ::tensorkv::testing::FakeStreamService;
using ::tensorkv::testing::Full;
using ::tensorkv::testing::Script;
using ::tensorkv::testing::ScriptedConnection;
using ::tensorkv::testing::StartingConnection;
using ::tensorkv::testing::StatusIs;
using ::testing::Each;
using ::testing::Not;
using ::testing::SizeIs;

// Calls that were started, and how they have ended.
template <typename Request>
class StartedCalls {
 public:
  StartedCalls(Connection& connection, Request request)
      : connection_(connection), request_(std::move(request)) {}

  void Start(int count, const CallOptions& options = {}) {
    num_left_ += count;
    for (int i = 0; i < count; ++i) {
      auto& reply = *replies_.emplace_back(new ReplyTo<Request>);
      connection_.Start(AnyCall(request_, reply), options, threads_,
                        [this](absl::Status status) {
                          MutexLock lock(&mutex_);
                          statuses_.push_back(std::move(status));
                          if (--num_left_ == 0) all_ended_.SignalAll();
                        });
    }
  }
  // Has the one thread that there is wait. Shared: it may outlive the test.
  void Occupy(std::shared_ptr<Notification> end) {
    threads_.Run([end = std::move(end)] { end->WaitForNotification(); });
  }
  // Of all of them, once they have ended.
  std::vector<absl::Status> Statuses() {
    MutexLock lock(&mutex_);
    while (num_left_ > 0) all_ended_.Wait(&mutex_);
    return statuses_;
  }

 private:
  Connection& connection_;
  CallThreads threads_{1};
  const Request request_;
  std::vector<std::unique_ptr<ReplyTo<Request>>> replies_;
  Mutex mutex_;
  CondVar all_ended_;
  std::atomic<int> num_left_ = 0;
  std::vector<absl::Status> statuses_;
};

class StartedPulls : public StartedCalls<PullRequest> {
 public:
  explicit StartedPulls(Connection& connection)
      : StartedCalls(connection, {.entries = {{"w"}}}) {}
};

// A server with as many calls under way as there are, until the test ends that.
class StartedCallsTest : public ::testing::Test {
 protected:
  StartedCallsTest() {
    service_.during_call = [this] {
      ++num_begun_;
      may_go_on_.WaitForNotification();
    };
    connection_ = *GrpcConnection::Create({.target = service_.Start()});
  }
  ~StartedCallsTest() override {
    if (!may_go_on_.HasBeenNotified()) may_go_on_.Notify();
    service_.Stop();
  }

  FakeService service_;
  std::atomic<int> num_begun_ = 0;
  Notification may_go_on_;
  std::unique_ptr<Connection> connection_;
};

TEST_F(StartedCallsTest, CallsThatWaitTakeNoThread) {
  StartedPulls pulls(*connection_);

  pulls.Start(20);
  // The one thread that there is would be taken by the first of them.
  while (num_begun_ < 20) std::this_thread::yield();
  may_go_on_.Notify();

  EXPECT_THAT(pulls.Statuses(), SizeIs(20));
}

TEST_F(StartedCallsTest, CancellingEndsThem) {
  StartedPulls pulls(*connection_);
  const auto canceller = std::make_shared<Canceller>();

  pulls.Start(3, {.canceller = canceller});
  while (num_begun_ < 3) std::this_thread::yield();
  canceller->Cancel();
  pulls.Start(1, {.canceller = canceller});

  for (const absl::Status& status : pulls.Statuses()) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kCancelled));
  }
}

TEST_F(StartedCallsTest, TimeoutEndsThem) {
  StartedPulls pulls(*connection_);

  pulls.Start(1, {.timeout = absl::Milliseconds(1)});
  pulls.Start(1, {.timeout = absl::ZeroDuration()});

  for (const absl::Status& status : pulls.Statuses()) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded));
  }
}

// A stream takes a thread.
TEST_F(StartedCallsTest, WaitForAThreadEndsWithItsCall) {
  connection_ = *GrpcConnection::Create(
      {.target = "127.0.0.1:1", .transfer = {.stream_threshold_bytes = 0}});
  const auto canceller = std::make_shared<Canceller>();
  const auto never = std::make_shared<Canceller>();
  const auto thread_ends = std::make_shared<Notification>();
  const InitRequest init = {.entries = {{"w", testing::Vector({1})}}};
  StartedCalls<InitRequest> cancelled(*connection_, init);
  StartedCalls<InitRequest> late(*connection_, init);
  cancelled.Occupy(thread_ends);
  late.Occupy(thread_ends);

  cancelled.Start(2, {.timeout = absl::Hours(1), .canceller = canceller});
  late.Start(1, {.timeout = absl::Milliseconds(1)});
  late.Start(1, {.timeout = absl::Milliseconds(1), .canceller = never});
  canceller->Cancel();

  EXPECT_THAT(cancelled.Statuses(),
              Each(StatusIs(absl::StatusCode::kCancelled)));
  EXPECT_THAT(late.Statuses(),
              Each(StatusIs(absl::StatusCode::kDeadlineExceeded)));
  thread_ends->Notify();
}

// Where a thread is there at once, too.
TEST(StartedStreamsTest, BlockNoThreadOfTheirCaller) {
  FakeStreamService service;
  std::atomic<int> num_begun = 0;
  std::atomic<int> num_started = 0;
  service.after_manifest = [&](const v1::Stripe&) {
    const int number = ++num_begun;
    while (num_started < number) std::this_thread::yield();
    return grpc::Status::OK;
  };
  const std::unique_ptr<Connection> connection = *GrpcConnection::Create(
      {.target = service.Start(), .transfer = {.stream_threshold_bytes = 0}});
  const PushRequest request = {
      .entries = {{.key = "w", .tensor = Full({1}, 1)}}};
  PushReply reply;
  CallThreads threads(1);

  for (int i = 0; i < 200; ++i) {
    // Shared: whoever tells of the end may not be done with it yet.
    const auto has_ended = std::make_shared<Notification>();
    absl::Status status;
    connection->Start(AnyCall(request, reply), {.timeout = absl::Seconds(20)},
                      threads, [&status, has_ended](absl::Status ended) {
                        status = std::move(ended);
                        has_ended->Notify();
                      });
    ++num_started;
    has_ended->WaitForNotification();
    ASSERT_THAT(status, Not(StatusIs(absl::StatusCode::kDeadlineExceeded)))
        << i;
  }

  EXPECT_EQ(num_begun, 200);
  service.Stop();
}

TEST_F(StartedCallsTest, ConnectionMayGoWhenItsLastCallHasEnded) {
  const PullRequest request = {.entries = {{"w"}}};
  PullReply reply;
  Notification is_gone;
  CallThreads threads(1);
  Connection& connection = *connection_;
  may_go_on_.Notify();

  connection.Start(AnyCall(request, reply), {}, threads,
                   [&, last = std::move(connection_)](absl::Status) mutable {
                     last = nullptr;
                     is_gone.Notify();
                   });

  is_gone.WaitForNotification();
}

class RepeatedCallsTest : public ::testing::Test {
 protected:
  // What became of a call, and how it came to that.
  struct Course {
    absl::Status status;
    std::vector<absl::Duration> timeouts;
    absl::Duration end;

    bool operator==(const Course&) const = default;
  };

  std::unique_ptr<Connection> Connect(Script& script) {
    const RetryEnvironment environment = {
        .now = [this] { return now_; },
        .sleep = [this](absl::Duration pause, const auto&) { now_ += pause; },
        .run_after =
            [this](absl::Duration pause, const auto&,
                   absl::AnyInvocable<void() &&> then) {
              now_ += pause;
              std::move(then)();
            },
        .random = [] { return 0.5; }};
    return std::make_unique<RetryingConnection>(
        std::make_unique<ScriptedConnection>(script), Backoff(), environment);
  }
  Course Run(const std::vector<absl::Status>& statuses, bool starts) {
    now_ = absl::ZeroDuration();
    Script script;
    script.statuses.assign(statuses.begin(), statuses.end());
    std::unique_ptr<Connection> connection = Connect(script);
    if (starts) {
      connection = std::make_unique<StartingConnection>(std::move(connection));
    }
    const absl::Status status =
        CallVerb("Pull", *connection, {.timeout = absl::Seconds(2)});
    return {status, script.timeouts, now_};
  }

  absl::Duration now_;
};

TEST_F(RepeatedCallsTest, AreRepeatedAsCallsThatAreWaitedFor) {
  const std::vector<absl::Status> choices = {
      absl::UnavailableError("down"),
      absl::UnavailableError("down"),
      absl::ResourceExhaustedError("full"),
      WithRetryDelay(absl::ResourceExhaustedError("busy"),
                     absl::Milliseconds(100)),
      absl::NotFoundError("no key"),
      absl::OkStatus()};
  std::mt19937 random(1);

  for (int i = 0; i < 300; ++i) {
    std::vector<absl::Status> statuses;
    for (int j = random() % 12; j > 0; --j) {
      // Mostly what is repeated.
      const size_t choice = random() % (j > 1 ? 2 : choices.size());
      statuses.push_back(choices[random() % 5 == 0 ? 3 : choice]);
    }
    SCOPED_TRACE(i);
    EXPECT_TRUE(Run(statuses, true) == Run(statuses, false));
  }
}

TEST(StartedRetriesTest, CancellingCutsThePause) {
  Script script;
  script.statuses = {absl::UnavailableError("down")};
  RetryingConnection connection(
      std::make_unique<ScriptedConnection>(script),
      {.initial = absl::Minutes(9), .maximum = absl::Minutes(9)},
      SystemRetryEnvironment());
  const auto canceller = std::make_shared<Canceller>();
  StartedPulls pulls(connection);

  script.during_call = [&] {
    // The second attempt is what ends the pause of some minutes.
    if (script.verbs.size() == 1) canceller->Cancel();
  };
  pulls.Start(1, {.timeout = absl::Hours(1), .canceller = canceller});

  EXPECT_THAT(pulls.Statuses(), SizeIs(1));
  EXPECT_THAT(script.verbs, SizeIs(2));
}

}  // namespace started_calls_test
}  // namespace tensorkv
