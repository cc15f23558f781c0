// Calls to a cluster that nobody waits for.

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "client/client.h"
#include "client/connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cluster/test_cluster.h"
#include "tests/contracts/caller.h"
#include "tests/testing/num_threads.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Caller;
using ::tensorkv::testing::Full;
using ::tensorkv::testing::IsOk;
using ::tensorkv::testing::NumThreads;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::TestCluster;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::SizeIs;

constexpr size_t kNumServers = 3;
// No more threads than that take calls that have ended, unless they block.
constexpr size_t kMostThreads = 16;

// Three servers with a key each, and pulls that wait for the next version of
// all three.
class StartedClusterCallsTest : public ::testing::Test {
 protected:
  StartedClusterCallsTest() {
    for (size_t i = 0; i < kNumServers; ++i) {
      const std::string key = cluster_.KeyOf(i);
      const absl::StatusOr<Version> version = others_.Init(key, Full({1}, 1));
      EXPECT_THAT(version, IsOk());
      request_.entries.push_back({.key = key, .min_version = *version + 1});
    }
    const std::string gate = cluster_.KeyOf(0, "", /*number=*/1);
    const absl::StatusOr<Version> version = others_.Init(gate, Full({1}, 1));
    EXPECT_THAT(version, IsOk());
    gated_request_.entries = {{.key = gate, .min_version = *version + 1}};
  }

  void Start(size_t count, const CallOptions& options) {
    for (size_t i = 0; i < count; ++i) Start(request_, options, Expected());
  }
  void Start(const PullRequest& request, const CallOptions& options,
             Connection::Done done) {
    PullReply& reply = *replies_.emplace_back(new PullReply);
    connection_->Start(AnyCall(request, reply), options, threads_,
                       std::move(done));
  }
  // Returns what tells how a call has ended that Statuses is to wait for.
  Connection::Done Expected() {
    ++num_expected_;
    return [this](absl::Status status) {
      MutexLock lock(&mutex_);
      statuses_.push_back(std::move(status));
      has_ended_.SignalAll();
    };
  }
  // Returns when as many calls wait at the servers, all together.
  void AwaitWaiting(uint64_t count) {
    while (others_.Describe()->calls_waiting() < count) {
      std::this_thread::yield();
    }
  }
  // Returns when none waits at a server any more.
  void AwaitNoneWaiting() {
    while (others_.Describe()->calls_waiting() > 0) std::this_thread::yield();
  }
  // Has calls with gated_request_ end, on the threads that take those that have
  // ended: the one that has started them is done with that, for `count` calls
  // wait at the servers before.
  void OpenGate(uint64_t count) {
    AwaitWaiting(count);
    ASSERT_THAT(others_.Push(gated_request_.entries[0].key, Full({1}, 1)),
                IsOk());
  }
  // Pushes what the calls wait for.
  void PushToAll() {
    for (const PullEntry& entry : request_.entries) {
      ASSERT_THAT(others_.Push(entry.key, Full({1}, 1)), IsOk());
    }
  }
  // Waits until all calls have ended, and returns their statuses.
  std::vector<absl::Status> Statuses() {
    MutexLock lock(&mutex_);
    while (statuses_.size() < num_expected_) has_ended_.Wait(&mutex_);
    return statuses_;
  }

  const TestCluster cluster_{kNumServers};
  const std::unique_ptr<Connection> connection_ = cluster_.Connect();
  // Connections of their own: what waits takes up the others.
  const std::unique_ptr<Connection> other_connection_ = cluster_.Connect();
  const Caller others_ = Caller(*other_connection_, "");
  CallThreads threads_{1};
  PullRequest request_;
  PullRequest gated_request_;
  std::vector<std::unique_ptr<PullReply>> replies_;
  size_t num_expected_ = 0;
  Mutex mutex_;
  CondVar has_ended_;
  std::vector<absl::Status> statuses_;
};

TEST_F(StartedClusterCallsTest, ThousandThatWaitTakeFewThreads) {
  constexpr size_t kNumCalls = 1000;
  // Those of gRPC and of the servers are there then.
  ASSERT_THAT(Caller(*connection_, "")
                  .PullMany({{request_.entries[0].key},
                             {request_.entries[1].key},
                             {request_.entries[2].key}}),
              IsOk());
  const int threads_before = NumThreads();

  Start(kNumCalls, {.timeout = absl::Minutes(5)});
  // A server takes so many at a time.
  AwaitWaiting(kNumServers * 128);
  EXPECT_LE(NumThreads() - threads_before, 20);
  PushToAll();

  EXPECT_THAT(Statuses(), Each(IsOk()));
  EXPECT_THAT(statuses_, SizeIs(kNumCalls));
  for (const auto& reply : replies_) {
    ASSERT_THAT(reply->values, SizeIs(kNumServers));
  }
}

TEST_F(StartedClusterCallsTest, CancellingEndsThem) {
  const auto canceller = std::make_shared<Canceller>();
  Start(10, {.timeout = absl::Minutes(5), .canceller = canceller});
  AwaitWaiting(kNumServers * 10);

  canceller->Cancel();

  EXPECT_THAT(Statuses(), Each(StatusIs(absl::StatusCode::kCancelled)));
  AwaitNoneWaiting();
}

TEST_F(StartedClusterCallsTest, TimeoutEndsThem) {
  Start(10, {.timeout = absl::Milliseconds(50)});

  EXPECT_THAT(Statuses(), Each(StatusIs(absl::StatusCode::kDeadlineExceeded)));
  AwaitNoneWaiting();
}

// All the threads that take calls that have ended wait for others to end then.
TEST_F(StartedClusterCallsTest, CallsThatBlockMayBeMadeWhereOthersEnd) {
  for (size_t i = 0; i < kMostThreads; ++i) {
    const CallOptions options = {.timeout = absl::Minutes(5)};
    Start(gated_request_, options,
          [=, this, done = Expected()](absl::Status) mutable {
            std::move(done)(connection_->Call(request_, options).status());
          });
  }
  OpenGate(kMostThreads);

  AwaitWaiting(kNumServers * kMostThreads);
  PushToAll();

  EXPECT_THAT(Statuses(), Each(IsOk()));
}

TEST_F(StartedClusterCallsTest, CancelledCallsMayBeAwaitedWhereOthersEnd) {
  const std::unique_ptr<Client> client =
      Client::Connect(
          {.target = cluster_.target(), .timeout = absl::Minutes(5)})
          .value();
  const auto canceller = std::make_shared<Canceller>();
  std::atomic<size_t> num_waiting = 0;
  for (size_t i = 0; i < kMostThreads; ++i) {
    client->WithCanceller(canceller).StartPull(
        request_, threads_, [done = Expected()](auto reply) mutable {
          std::move(done)(reply.status());
        });
    client->StartPull(gated_request_, threads_,
                      [&, canceller, done = Expected()](auto) mutable {
                        ++num_waiting;
                        canceller->CancelAndWait();
                        std::move(done)(absl::CancelledError());
                      });
  }
  // All are to wait at the same time.
  std::optional<Canceller::Use> last_call(canceller);
  OpenGate((kNumServers + 1) * kMostThreads);

  while (num_waiting < kMostThreads) std::this_thread::yield();
  last_call.reset();

  EXPECT_THAT(Statuses(), Each(StatusIs(absl::StatusCode::kCancelled)));
}

// Whoever starts a call may let go of the connection in what it tells.
TEST(StartedClusterCallTest, ConnectionMayGoWhenItsLastCallHasEnded) {
  const TestCluster cluster(kNumServers);
  std::unique_ptr<Connection> connection = cluster.Connect();
  const ListRequest request;
  ListReply reply;
  CallThreads threads(1);
  const auto is_gone = std::make_shared<Notification>();
  Connection& used = *connection;

  used.Start(AnyCall(request, reply), {}, threads,
             [is_gone, last = std::move(connection)](absl::Status) mutable {
               last = nullptr;
               is_gone->Notify();
             });

  is_gone->WaitForNotification();
}

// Those of a server that is down ask together where it is by now.
TEST(StartedClusterCallTest, CallsAtAServerThatIsDownEnd) {
  TestCluster cluster(2);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  ASSERT_THAT(Caller(*connection, "").Init(cluster.KeyOf(1), Full({1}, 1)),
              IsOk());
  const PullRequest request = {.entries = {{.key = cluster.KeyOf(1)}}};
  cluster.Stop(1);
  std::vector<PullReply> replies(20);
  std::vector<std::shared_ptr<Notification>> ends;
  std::vector<absl::Status> statuses(replies.size());
  CallThreads threads(1);

  for (size_t i = 0; i < replies.size(); ++i) {
    ends.push_back(std::make_shared<Notification>());
    connection->Start(AnyCall(request, replies[i]),
                      {.timeout = absl::Milliseconds(300)}, threads,
                      [&statuses, i, end = ends[i]](absl::Status status) {
                        statuses[i] = std::move(status);
                        end->Notify();
                      });
  }

  for (const auto& end : ends) end->WaitForNotification();
  // Whoever comes after a try that took long has no time for one of its own.
  EXPECT_THAT(statuses,
              Each(AnyOf(StatusIs(absl::StatusCode::kUnavailable),
                         StatusIs(absl::StatusCode::kDeadlineExceeded))));
}

}  // namespace
}  // namespace tensorkv
