#include "client/internal/retry/retry_loop.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/scoped_blocking_call.h"
#include "client/internal/retry/retrying_connection.h"
#include "contract/retry_delay.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Backoff kBackoff = {.initial = absl::Milliseconds(100),
                              .maximum = absl::Milliseconds(400)};

// A connection whose calls end as a test says, which hears their timeouts.
class Answers final : public Connection {
 public:
  explicit Answers(std::function<absl::Status(absl::Duration)> answer)
      : answer_(std::move(answer)) {}

  absl::Status Attempt(const AnyCall&, const CallOptions& options) override {
    return answer_(options.timeout);
  }

 private:
  const std::function<absl::Status(absl::Duration)> answer_;
};

class RetryLoopTest : public ::testing::Test {
 protected:
  RetryEnvironment Environment() {
    return {.now = [this] { return now_; },
            .sleep =
                [this](absl::Duration pause, const auto&) {
                  pauses_.push_back(pause);
                  now_ += pause + oversleep_;
                },
            .random = [this] { return random_; }};
  }

  // Fails with `status` the first `failures` times, then returns the number
  // of the attempt. An attempt takes `attempt_takes_`.
  absl::StatusOr<int> Run(int failures, absl::Duration timeout,
                          const absl::Status& status) {
    return Run(timeout, [&](int attempt) {
      return attempt <= failures ? status : absl::OkStatus();
    });
  }
  // Makes a call whose attempts end with `answer(1)`, `answer(2)`, ... Returns
  // how many there were if the last was OK.
  absl::StatusOr<int> Run(absl::Duration timeout,
                          std::function<absl::Status(int)> answer) {
    int attempts = 0;
    RetryingConnection connection(
        std::make_unique<Answers>([&](absl::Duration time_left) {
          times_left_.push_back(time_left);
          now_ += attempt_takes_;
          return answer(++attempts);
        }),
        backoff_, Environment());
    const auto reply = connection.Call(PullRequest(), {.timeout = timeout});
    if (!reply.ok()) return reply.status();
    return attempts;
  }

  Backoff backoff_ = kBackoff;
  absl::Duration now_ = absl::Seconds(1000);
  absl::Duration attempt_takes_;
  absl::Duration oversleep_;
  double random_ = 1.0;
  std::vector<absl::Duration> pauses_;
  std::vector<absl::Duration> times_left_;
};

TEST_F(RetryLoopTest, SuccessIsReturnedWithoutPause) {
  EXPECT_THAT(Run(0, absl::Seconds(10), absl::UnavailableError("")),
              IsOkAndHolds(1));

  EXPECT_THAT(pauses_, IsEmpty());
}

TEST_F(RetryLoopTest, AnyOtherErrorIsReturnedAtOnce) {
  for (const absl::Status& error :
       {absl::AbortedError("lost"),
        absl::ResourceExhaustedError("over budget")}) {
    EXPECT_EQ(Run(9, absl::Seconds(10), error).status(), error);
  }

  EXPECT_THAT(pauses_, IsEmpty());
}

TEST_F(RetryLoopTest, RefusedRepeatDoesNotSayThatNothingHappened) {
  EXPECT_THAT(Run(absl::Seconds(1),
                  [](int attempt) {
                    if (attempt == 1) return absl::UnavailableError("lost");
                    return absl::ResourceExhaustedError("over budget");
                  }),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("may have been made")));
  EXPECT_GT(times_left_.size(), 2);
}

TEST_F(RetryLoopTest, RefusalThatSaysWhenIsRepeatedThen) {
  const absl::Status refusal = WithRetryDelay(
      absl::ResourceExhaustedError("quota"), absl::Milliseconds(1500));

  EXPECT_THAT(Run(2, absl::Seconds(10), refusal), IsOkAndHolds(3));
  EXPECT_THAT(pauses_,
              ElementsAre(absl::Milliseconds(1600), absl::Milliseconds(1700)));
  EXPECT_THAT(Run(99, absl::Seconds(1), refusal),
              StatusIs(absl::StatusCode::kResourceExhausted, "quota"));
}

TEST_F(RetryLoopTest, DelayMakesNothingElseWorthARepeat) {
  const auto attempts_with = [&](const absl::Status& status,
                                 absl::Duration delay) {
    times_left_.clear();
    EXPECT_THAT(
        Run(9, absl::Minutes(99), WithRetryDelay(status, delay)).status(),
        StatusIs(status.code()));
    return times_left_.size();
  };

  EXPECT_EQ(attempts_with(absl::NotFoundError("key"), absl::Seconds(1)), 1);
  EXPECT_EQ(attempts_with(absl::AbortedError("round"), absl::Seconds(1)), 1);
  // Whoever asks for a longer pause than there is must not get a shorter one.
  EXPECT_EQ(attempts_with(absl::UnavailableError("full"), absl::Hours(1)), 1);
}

TEST_F(RetryLoopTest, PausesDoubleUpToTheMaximum) {
  ASSERT_OK(Run(5, absl::Seconds(10), absl::UnavailableError("")));

  EXPECT_THAT(pauses_,
              ElementsAre(absl::Milliseconds(100), absl::Milliseconds(200),
                          absl::Milliseconds(400), absl::Milliseconds(400),
                          absl::Milliseconds(400)));
}

TEST_F(RetryLoopTest, RandomnessShortensThePauses) {
  random_ = 0.25;

  ASSERT_OK(Run(2, absl::Seconds(10), absl::UnavailableError("")));

  EXPECT_THAT(pauses_,
              ElementsAre(absl::Milliseconds(25), absl::Milliseconds(50)));
}

TEST_F(RetryLoopTest, EachAttemptIsToldTheTimeLeft) {
  attempt_takes_ = absl::Milliseconds(50);

  ASSERT_OK(Run(2, absl::Seconds(1), absl::UnavailableError("")));

  EXPECT_THAT(times_left_,
              ElementsAre(absl::Milliseconds(1000), absl::Milliseconds(850),
                          absl::Milliseconds(600)));
}

TEST_F(RetryLoopTest, NoPauseReachesTheDeadline) {
  EXPECT_THAT(Run(99, absl::Milliseconds(300), absl::UnavailableError("down")),
              StatusIs(absl::StatusCode::kUnavailable, "down"));

  EXPECT_THAT(pauses_, ElementsAre(absl::Milliseconds(100)));
}

TEST_F(RetryLoopTest, SleepingPastTheDeadlineEndsTheLoop) {
  oversleep_ = absl::Seconds(5);

  EXPECT_THAT(Run(99, absl::Seconds(1), absl::UnavailableError("down")),
              StatusIs(absl::StatusCode::kUnavailable, "down"));

  EXPECT_EQ(times_left_.size(), 1);
}

TEST_F(RetryLoopTest, NameThatCannotBeResolvedIsGivenUpSooner) {
  const absl::Duration begin = now_;

  EXPECT_THAT(Run(99, absl::Minutes(1),
                  absl::UnavailableError("DNS resolution failed for nohost")),
              StatusIs(absl::StatusCode::kUnavailable));

  EXPECT_GT(now_ - begin, kBackoff.unresolved - kBackoff.maximum);
  EXPECT_LT(now_ - begin, kBackoff.unresolved);
}

TEST_F(RetryLoopTest, ServerThatIsNotThereIsWaitedForOnlyIfToldSo) {
  const absl::Status refused =
      absl::UnavailableError("failed to connect to all addresses");
  EXPECT_THAT(Run(2, absl::Seconds(10), refused), IsOkAndHolds(3));

  backoff_.waits_for_server = false;

  EXPECT_THAT(Run(2, absl::Seconds(10), refused),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Run(2, absl::Seconds(10), absl::UnavailableError("closed")),
              IsOkAndHolds(3));
}

TEST_F(RetryLoopTest, FirstAttemptIsMadeWhateverTheTimeout) {
  EXPECT_THAT(Run(0, absl::ZeroDuration(), absl::UnavailableError("")),
              IsOkAndHolds(1));
}

TEST_F(RetryLoopTest, InfiniteTimeoutNeverEndsTheLoop) {
  EXPECT_THAT(Run(500, absl::InfiniteDuration(), absl::UnavailableError("")),
              IsOkAndHolds(501));
}

TEST(SystemRetryEnvironmentTest, SleepTakesAtLeastItsTime) {
  const RetryEnvironment environment = SystemRetryEnvironment();
  const absl::Duration start = environment.now();

  environment.sleep(absl::Milliseconds(1), nullptr);

  EXPECT_GE(environment.now() - start, absl::Milliseconds(1));
}

TEST(SystemRetryEnvironmentTest, CancellingEndsTheSleep) {
  const RetryEnvironment environment = SystemRetryEnvironment();
  const auto before = std::make_shared<Canceller>();
  const auto during = std::make_shared<Canceller>();
  before->Cancel();

  environment.sleep(absl::Hours(1), before);
  std::thread other([&] { during->Cancel(); });
  environment.sleep(absl::Hours(1), during);

  other.join();
}

TEST(SystemRetryEnvironmentTest, RunsWhatComesAfterAPause) {
  const RetryEnvironment environment = SystemRetryEnvironment();
  const absl::Duration start = environment.now();
  const auto before = std::make_shared<Canceller>();
  const auto during = std::make_shared<Canceller>();
  Notification has_run, has_run_before, has_run_during;
  before->Cancel();

  environment.run_after(absl::Milliseconds(1), nullptr,
                        [&] { has_run.Notify(); });
  environment.run_after(absl::Hours(1), before,
                        [&] { has_run_before.Notify(); });
  environment.run_after(absl::Hours(1), during,
                        [&] { has_run_during.Notify(); });
  during->Cancel();

  has_run.WaitForNotification();
  EXPECT_GE(environment.now() - start, absl::Milliseconds(1));
  has_run_before.WaitForNotification();
  has_run_during.WaitForNotification();
}

// They are more than the threads that anybody makes beforehand.
TEST(SystemRetryEnvironmentTest, PausesEndThoughWhatComesAfterOthersBlocks) {
  const size_t num_pauses = 64 + 4 * std::thread::hardware_concurrency();
  const RetryEnvironment environment = SystemRetryEnvironment();
  std::atomic<size_t> num_left = num_pauses;
  Notification all_block, all_have_ended;

  for (size_t i = 0; i < num_pauses; ++i) {
    environment.run_after(absl::ZeroDuration(), nullptr, [&] {
      const ScopedBlockingCall waits;
      if (--num_left == 0) all_block.Notify();
      all_block.WaitForNotification();
      if (++num_left == num_pauses) all_have_ended.Notify();
    });
  }

  all_have_ended.WaitForNotification();
}

// A server without threads of gRPC, which would look after the client's
// connections too: takes one connection, and sends an empty SETTINGS frame.
class SilentServer {
 public:
  SilentServer() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_, any, size), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    EXPECT_EQ(getsockname(listener_, any, &size), 0);
    port_ = ntohs(address.sin_port);
    greeter_ = std::thread([this] {
      constexpr char kSettings[] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
      connection_ = accept(listener_, nullptr, nullptr);
      if (connection_ < 0) return;
      EXPECT_EQ(write(connection_, kSettings, 9), 9);
    });
  }
  ~SilentServer() {
    shutdown(listener_, SHUT_RDWR);  // ends accept
    greeter_.join();
    close(connection_);
    close(listener_);
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  const int listener_;
  int port_ = 0;
  int connection_ = -1;
  std::thread greeter_;
};

TEST(SystemRetryEnvironmentTest, ConnectionIsMadeDuringTheSleep) {
  const RetryEnvironment environment = SystemRetryEnvironment();
  const SilentServer server;
  const auto channel =
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials());

  // gRPC itself would look after 5 seconds.
  for (int i = 0; i < 300; ++i) {
    if (channel->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY) break;
    environment.sleep(absl::Milliseconds(10), nullptr);
  }

  EXPECT_EQ(channel->GetState(false), GRPC_CHANNEL_READY);
}

}  // namespace
}  // namespace tensorkv
