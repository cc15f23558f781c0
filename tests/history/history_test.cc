// Histories of concurrent clients on a live server, checked; and those of
// servers that are broken on purpose, which must be caught.

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/mutex.h"
#include "client/client.h"
#include "client/internal/steady_now.h"
#include "client/internal/transfer/grpc_connection.h"
#include "client/worker_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/server.h"
#include "tests/client/shared_connection.h"
#include "tests/history/history_checker.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using Kind = HistoryEvent::Kind;

constexpr int kNumClients = 4;
constexpr int kNumCalls = 300;    // of each client
constexpr int kNumUpdates = 100;  // of the namespace in which they run
constexpr Step kNumSteps = 100;
constexpr Step kStaleness = 2;
constexpr Step kStepsPerBarrier = 10;
constexpr const char* kKeys[] = {"a", "b"};

// A server of which every 20th call goes wrong.
class BrokenConnection : public SharedConnection {
 public:
  explicit BrokenConnection(Connection& inner) : SharedConnection(inner) {}

 protected:
  bool GoesWrong() { return ++num_calls_ % 20 == 0; }

 private:
  std::atomic<int> num_calls_ = 0;
};

// Answers some pulls with what it has read long ago.
class ReadsOldValues final : public BrokenConnection {
 public:
  using BrokenConnection::BrokenConnection;
  absl::StatusOr<PullReply> Make(const PullRequest& request,
                                 const CallOptions& options) override {
    absl::StatusOr<PullReply> reply = SharedConnection::Make(request, options);
    MutexLock lock(&mutex_);
    const auto first =
        first_.emplace(request.entries[0].key, *reply).first->second;
    return GoesWrong() ? first : reply;
  }

 private:
  Mutex mutex_;
  std::map<std::string, PullReply> first_ ABSL_GUARDED_BY(mutex_);
};

// Holds nobody back: pushes of any step are applied at once, and whoever comes
// to a barrier may go on. All others overtake the worker that pushes first.
class HoldsNobodyBack final : public BrokenConnection {
 public:
  using BrokenConnection::BrokenConnection;
  absl::StatusOr<PushReply> Make(const PushRequest& request,
                                 const CallOptions&) override {
    const int num_earlier = num_pushes_.fetch_add(1);
    if (num_earlier == (kNumClients - 1) * kNumSteps) overtaken_.Notify();
    if (num_earlier == 0) overtaken_.WaitForNotification();
    return PushReply{std::vector<PushResult>(request.entries.size())};
  }
  absl::StatusOr<BarrierReply> Make(const BarrierRequest&,
                                    const CallOptions&) override {
    return BarrierReply();
  }

 private:
  std::atomic<int> num_pushes_ = 0;
  absl::Notification overtaken_;
};

// Makes some calls and loses their replies, as connections do that break.
class LosesReplies final : public BrokenConnection {
 public:
  using BrokenConnection::BrokenConnection;
  absl::StatusOr<PushReply> Make(const PushRequest& request,
                                 const CallOptions& options) override {
    return Lose(SharedConnection::Make(request, options));
  }
  absl::StatusOr<PullReply> Make(const PullRequest& request,
                                 const CallOptions& options) override {
    return Lose(SharedConnection::Make(request, options));
  }
  absl::StatusOr<PullReply> Make(const PushPullRequest& request,
                                 const CallOptions& options) override {
    return Lose(SharedConnection::Make(request, options));
  }

 private:
  template <typename Reply>
  Reply Lose(Reply reply) {
    if (GoesWrong()) return absl::UnavailableError("the connection broke");
    return reply;
  }
};

// Sums up only some of what was contributed.
class LosesContributions final : public BrokenConnection {
 public:
  using BrokenConnection::BrokenConnection;
  absl::StatusOr<PullReply> Make(const PushPullRequest& request,
                                 const CallOptions& options) override {
    PushPullRequest changed = request;
    if (GoesWrong()) {
      for (PushEntry& entry : changed.entries) {
        entry.tensor = Tensor();
        entry.skip = true;
      }
    }
    return SharedConnection::Make(changed, options);
  }
};

class HistoryTest : public ::testing::Test {
 protected:
  HistoryTest()
      : server_(Server::Create({.listen = "127.0.0.1:0",
                                .budget_bytes = 1 << 28,
                                .num_threads = 2})
                    .value()),
        connection_(
            GrpcConnection::Create({.target = server_->address()}).value()) {
    Client client(std::make_unique<SharedConnection>(*connection_), {});
    EXPECT_OK(client.SetRule({.name = "accumulate"}));
    for (const char* key : kKeys) {
      EXPECT_OK(client.Init(key, Full({2}, 0, DType::kF64)));
    }
  }

  // Steps and barriers of the workers of a bounded namespace.
  template <typename Wrapper>
  std::vector<HistoryEvent> RecordWorkers() {
    Client client(std::make_unique<SharedConnection>(*connection_),
                  {.name_space = "bounded"});
    EXPECT_OK(client.CreateNamespace("bounded", {.mode = Mode::kBounded,
                                                 .num_workers = kNumClients,
                                                 .staleness = kStaleness}));
    EXPECT_OK(client.Init("a", Full({2}, 0, DType::kF64)));
    Wrapper server(*connection_);
    std::vector<std::thread> workers;
    for (int i = 0; i < kNumClients; ++i) {
      workers.emplace_back([&, i] { RunWorker(i, server); });
    }
    for (std::thread& worker : workers) worker.join();
    return history_.events();
  }

  // Rounds of the workers of a sync namespace.
  template <typename Wrapper>
  std::vector<HistoryEvent> RecordRounds() {
    Client client(std::make_unique<SharedConnection>(*connection_),
                  {.name_space = "sync"});
    EXPECT_OK(client.CreateNamespace(
        "sync", {.mode = Mode::kSync,
                 .num_workers = kNumClients,
                 .rule = ParseRuleSpec("accumulate").value()}));
    for (const char* key : kKeys) {
      EXPECT_OK(client.Init(key, Full({2}, 0, DType::kF64)));
    }
    Wrapper server(*connection_);
    std::vector<std::thread> workers;
    for (int i = 0; i < kNumClients; ++i) {
      workers.emplace_back([&, i] { RunRounds(i, server); });
    }
    // Nobody is lost: what would follow then does not matter.
    for (int i = 0; i < kNumUpdates; ++i) {
      EXPECT_OK(client.UpdateNamespace(
          "sync",
          {.budget_bytes = uint64_t{1} << (20 + i % 4),
           .on_worker_loss =
               i % 2 == 0 ? OnWorkerLoss::kContinue : OnWorkerLoss::kFail},
          {"budget_bytes", "on_worker_loss"}));
    }
    for (std::thread& worker : workers) worker.join();
    return history_.events();
  }

  // Pushes and pulls of all clients at once.
  template <typename Wrapper>
  std::vector<HistoryEvent> Record() {
    Wrapper server(*connection_);
    std::vector<std::thread> clients;
    for (int i = 0; i < kNumClients; ++i) {
      clients.emplace_back([&, i] { RunClient(i, server); });
    }
    for (std::thread& client : clients) client.join();
    return history_.events();
  }

 private:
  void RunWorker(int index, Connection& server) {
    ASSERT_OK_AND_ASSIGN(
        const std::unique_ptr<WorkerClient> worker,
        WorkerClient::Join(
            std::make_unique<Client>(std::make_unique<SharedConnection>(server),
                                     ClientOptions{.name_space = "bounded"}),
            {.name = NameOf(index), .lease = absl::Minutes(1)}));
    ASSERT_OK(connection_->Call(
        testing::BarrierOf("bounded", *worker->client().worker(),
                           "all have joined"),
        {}));
    for (Step step = 1; step <= kNumSteps; ++step) {
      // Some are slower than others, each at another time.
      if ((step + index) % kNumClients == 0) std::this_thread::yield();
      HistoryEvent push = {.kind = Kind::kStep, .client = index, .step = step};
      push.begin = SteadyNow();
      ASSERT_OK(worker->client().Push("a", Full({2}, 1, DType::kF64)));
      push.end = SteadyNow();
      history_.Add(push);
      if (step % kStepsPerBarrier == 0) Barrier(*worker, index, step);
    }
    ASSERT_OK(worker->Leave());
  }

  void RunRounds(int index, Connection& server) {
    ASSERT_OK_AND_ASSIGN(
        const std::unique_ptr<WorkerClient> worker,
        WorkerClient::Join(
            std::make_unique<Client>(std::make_unique<SharedConnection>(server),
                                     ClientOptions{.name_space = "sync"}),
            {.name = NameOf(index), .lease = absl::Minutes(1)}));
    for (Step step = worker->Resume(); step <= kNumSteps;
         step = worker->Resume()) {
      const int64_t amount = 1000 * index + static_cast<int64_t>(step);
      const absl::Duration begin = SteadyNow();
      ASSERT_OK_AND_ASSIGN(const PullReply reply,
                           MakeStep(*worker, step, amount));
      for (size_t key = 0; key < std::size(kKeys); ++key) {
        const Tensor& tensor = reply.values[key].tensor;
        history_.Add(
            {.kind = Kind::kRound,
             .client = index,
             .begin = begin,
             .end = SteadyNow(),
             .key = kKeys[key],
             .amount = amount,
             .value = static_cast<int64_t>(tensor.elements<double>()[0]),
             .is_torn = !IsUniform(tensor),
             .step = step});
      }
    }
    ASSERT_OK(worker->Leave());
  }

  // All keys at once, or each for itself.
  static absl::StatusOr<PullReply> MakeStep(WorkerClient& worker, Step step,
                                            int64_t amount) {
    std::vector<PushEntry> entries;
    for (const char* key : kKeys) {
      entries.push_back({.key = key, .tensor = Full({2}, amount, DType::kF64)});
    }
    if (step % 2 == 0) return worker.PushPull(step, std::move(entries));
    for (const PushEntry& entry : entries) {
      const absl::Status status = worker.Push(step, {entry});
      if (!status.ok()) return status;
    }
    return worker.Pull({kKeys[0], kKeys[1]});
  }

  static std::string NameOf(int index) { return absl::StrCat("worker", index); }

  void Barrier(WorkerClient& worker, int index, Step step) {
    HistoryEvent event = {.kind = Kind::kBarrier,
                          .client = index,
                          .barrier = absl::StrCat("after step ", step)};
    event.begin = SteadyNow();
    ASSERT_OK(worker.Barrier(event.barrier));
    event.end = SteadyNow();
    history_.Add(event);
  }

  void RunClient(int index, Connection& server) {
    Client client(std::make_unique<SharedConnection>(server), {});
    for (int call = 0; call < kNumCalls; ++call) {
      const std::string key = kKeys[(index + call / 2) % std::size(kKeys)];
      HistoryEvent event = {.client = index, .key = key};
      event.begin = SteadyNow();
      if (call % 2 == 0) {
        Push(client, 1000 * index + call + 1, event);
      } else {
        Pull(client, event);
      }
    }
  }

  void Push(Client& client, int64_t amount, HistoryEvent& event) {
    ASSERT_OK_AND_ASSIGN(
        const PushResult result,
        client.Push(event.key, Full({2}, amount, DType::kF64)));
    event.end = SteadyNow();
    event.kind = Kind::kPush;
    event.version = result.version;
    event.amount = amount;
    history_.Add(event);
  }

  void Pull(Client& client, HistoryEvent& event) {
    ASSERT_OK_AND_ASSIGN(const Value value, client.Pull(event.key));
    event.end = SteadyNow();
    event.kind = Kind::kPull;
    event.version = value.version;
    event.value = static_cast<int64_t>(value.tensor.elements<double>()[0]);
    event.is_torn = !IsUniform(value.tensor);
    history_.Add(event);
  }

  const std::unique_ptr<Server> server_;
  const std::unique_ptr<Connection> connection_;
  History history_;
};

TEST_F(HistoryTest, OfTheServerIsInOrder) {
  EXPECT_THAT(OrderViolations(Record<SharedConnection>()), IsEmpty());
}

TEST_F(HistoryTest, OfBoundedWorkersIsWithinTheBound) {
  const std::vector<HistoryEvent> events = RecordWorkers<SharedConnection>();

  EXPECT_EQ(events.size(),
            kNumClients * (kNumSteps + kNumSteps / kStepsPerBarrier));
  EXPECT_THAT(StalenessViolations(events, kNumClients, kStaleness), IsEmpty());
  EXPECT_THAT(BarrierViolations(events, kNumClients), IsEmpty());
}

TEST_F(HistoryTest, OfRoundsHasEachContributionOnce) {
  const std::vector<HistoryEvent> events = RecordRounds<SharedConnection>();

  EXPECT_EQ(events.size(), kNumClients * kNumSteps * std::size(kKeys));
  EXPECT_THAT(RoundViolations(events, kNumClients), IsEmpty());
}

TEST_F(HistoryTest, OfRoundsHasEachContributionOnceWhereRepliesAreLost) {
  EXPECT_THAT(RoundViolations(RecordRounds<LosesReplies>(), kNumClients),
              IsEmpty());
}

TEST_F(HistoryTest, OfAServerThatLosesContributionsIsCaught) {
  EXPECT_THAT(RoundViolations(RecordRounds<LosesContributions>(), kNumClients),
              Not(IsEmpty()));
}

TEST_F(HistoryTest, OfAServerThatHoldsNobodyBackIsCaught) {
  const std::vector<HistoryEvent> events = RecordWorkers<HoldsNobodyBack>();

  EXPECT_THAT(StalenessViolations(events, kNumClients, kStaleness),
              Not(IsEmpty()));
  EXPECT_THAT(BarrierViolations(events, kNumClients), Not(IsEmpty()));
}

TEST_F(HistoryTest, OfAServerThatReadsOldValuesIsCaught) {
  EXPECT_THAT(OrderViolations(Record<ReadsOldValues>()), Not(IsEmpty()));
}

}  // namespace
}  // namespace tensorkv::testing
