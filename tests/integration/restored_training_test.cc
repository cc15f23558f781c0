// A group that trains while its server is killed again and again and started
// from its last checkpoint: it ends with the bits of one that nothing disturbs.

#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "client/worker_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server_process.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

constexpr uint32_t kNumWorkers = 3;
constexpr int kKillsOfTraining = 5;
// Between two kills the group makes so many steps and may make as many more.
constexpr Step kStepsPerKill = 8;
constexpr Step kNumSteps = 2 * kStepsPerKill * (kKillsOfTraining + 1);
constexpr int kMaxMomentUs = 10'000;
constexpr int64_t kNumElements = 256;

const std::vector<std::string>& Keys() {
  static const auto* const keys = new std::vector<std::string>{"a", "b"};
  return *keys;
}

// Depends on every bit of the weights and on the data of that worker and step.
Tensor GradientOf(const Tensor& weights, uint32_t rank, Step step) {
  std::vector<double> gradient;
  for (const float weight : weights.elements<float>()) {
    gradient.push_back(
        std::sin(3.0 * weight + 0.1 * static_cast<double>(step) + rank));
  }
  return Vector(gradient);
}

// How far a group may go, and has gone.
class Progress {
 public:
  // Workers begin no step above `limit` until the next call.
  void Allow(Step limit) {
    MutexLock lock(&mutex_);
    limit_ = limit;
    changed_.SignalAll();
  }
  void AwaitPermission(Step step) {
    MutexLock lock(&mutex_);
    while (step > limit_) changed_.Wait(&mutex_);
  }
  void Reach(Step step) {
    MutexLock lock(&mutex_);
    reached_ = std::max(reached_, step);
    changed_.SignalAll();
  }
  // A worker that has made `last` is to make `next`.
  void GoOn(Step last, Step next) {
    MutexLock lock(&mutex_);
    if (next <= last) ++num_back_;
  }
  int num_back() const {
    MutexLock lock(&mutex_);
    return num_back_;
  }
  void AwaitReached(Step step) {
    MutexLock lock(&mutex_);
    while (reached_ < step) changed_.Wait(&mutex_);
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  int num_back_ ABSL_GUARDED_BY(mutex_) = 0;
  Step limit_ ABSL_GUARDED_BY(mutex_) = 0;
  Step reached_ ABSL_GUARDED_BY(mutex_) = 0;
};

std::vector<PushEntry> EntriesOf(const PullReply& weights, uint32_t rank,
                                 Step step, size_t begin, size_t end) {
  std::vector<PushEntry> entries;
  for (size_t i = begin; i < end; ++i) {
    entries.push_back(
        {.key = Keys()[i],
         .tensor = GradientOf(weights.values[i].tensor, rank, step)});
  }
  return entries;
}

// A step in one call, or in three.
absl::StatusOr<PullReply> MakeStep(WorkerClient& worker,
                                   const PullReply& weights, Step step) {
  const uint32_t rank = worker.rank();
  if (step % 2 == 0) {
    return worker.PushPull(step, EntriesOf(weights, rank, step, 0, 2));
  }
  RETURN_IF_ERROR(worker.Push(step, EntriesOf(weights, rank, step, 0, 1)));
  RETURN_IF_ERROR(worker.Push(step, EntriesOf(weights, rank, step, 1, 2)));
  return worker.Pull(Keys());
}

// As a program would be written that resumes where a server has gone back.
absl::Status Train(WorkerClient& worker, Progress& progress) {
  ASSIGN_OR_RETURN(PullReply weights, worker.Pull(Keys()));
  Step last = 0;
  for (Step step = worker.Resume(); step <= kNumSteps; step = worker.Resume()) {
    progress.GoOn(last, step);
    progress.AwaitPermission(step);
    absl::StatusOr<PullReply> made = MakeStep(worker, weights, step);
    if (worker.state() == WorkerState::kGoneBack) {
      worker.Resume();
      made = worker.Pull(Keys());
    }
    ASSIGN_OR_RETURN(weights, std::move(made));
    progress.Reach(step);
    last = step;
  }
  return absl::OkStatus();
}

class RestoredTrainingTest : public ::testing::Test {
 protected:
  RestoredTrainingTest() {
    std::filesystem::remove_all(directory_);
    Start("127.0.0.1:0");
  }
  ~RestoredTrainingTest() override { std::filesystem::remove_all(directory_); }

  void Start(const std::string& listen) {
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{
        absl::StrCat("--listen=", listen), "--metrics_listen=127.0.0.1:0",
        "--budget=256MiB", absl::StrCat("--checkpoint_dir=", directory_)});
    const std::string address = server_->AwaitAddress();
    if (address_.empty()) address_ = address;
  }

  std::unique_ptr<Client> ClientOf(const std::string& name_space) const {
    return Client::Connect({.target = address_,
                            .name_space = name_space,
                            .timeout = absl::Minutes(1)})
        .value();
  }

  void CreateGroup(const std::string& name) const {
    const std::unique_ptr<Client> client = ClientOf(name);
    ASSERT_OK(client->CreateNamespace(
        name, {.mode = Mode::kSync,
               .num_workers = kNumWorkers,
               .rule = ParseRuleSpec("adam(learning_rate=0.05)").value()}));
    for (const std::string& key : Keys()) {
      ASSERT_OK(client->Init(key, Full({kNumElements}, 0.5)));
    }
  }

  // The values of the group after its last step.
  std::vector<std::string> TrainAll(const std::string& name,
                                    Progress& progress) const {
    std::vector<std::unique_ptr<WorkerClient>> workers(kNumWorkers);
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < kNumWorkers; ++i) {
      threads.emplace_back([&, i] {
        absl::StatusOr<std::unique_ptr<WorkerClient>> worker =
            WorkerClient::Join(ClientOf(name),
                               {.name = absl::StrCat("worker-", i),
                                .step_timeout = absl::Minutes(1)});
        EXPECT_OK(worker);
        if (!worker.ok()) return progress.Reach(kNumSteps);
        workers[i] = *std::move(worker);
        const absl::Status status = Train(*workers[i], progress);
        EXPECT_OK(status);
        if (!status.ok()) progress.Reach(kNumSteps);
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<std::string> bytes;
    for (const std::string& key : Keys()) {
      bytes.push_back(BytesOf(ClientOf(name)->Pull(key)->tensor));
    }
    return bytes;
  }

  // Keeps the last checkpoint, through all servers but the first: so the group
  // goes back at least once, from where it is to its start.
  void SaveUntil(const std::atomic<bool>& is_done, Progress& progress) const {
    progress.AwaitPermission(4 * kStepsPerKill + 1);
    std::string last;
    while (!is_done) {
      const std::unique_ptr<Client> client = ClientOf("");
      for (auto saved = client->SaveCheckpoint(); saved.ok() && !is_done;
           saved = client->SaveCheckpoint()) {
        if (!last.empty()) client->DeleteCheckpoint(last).IgnoreError();
        last = saved->name();
      }
    }
  }

  void KillAgainAndAgain(Progress& progress) {
    std::mt19937_64 random(/*seed=*/5);
    for (int kill = 1; kill <= kKillsOfTraining; ++kill) {
      const Step reached = 2 * kStepsPerKill * kill;
      progress.Allow(reached + kStepsPerKill);
      progress.AwaitReached(reached);
      // The moment is to be any, of a step or of a checkpoint.
      absl::SleepFor(absl::Microseconds(
          std::uniform_int_distribution<int>(0, kMaxMomentUs)(random)));
      server_->Signal(SIGKILL);
      server_->Wait();
      Start(address_);
    }
    progress.Allow(kNumSteps);
  }

  const std::string directory_ =
      absl::StrCat(::testing::TempDir(), "/restored-training");
  std::unique_ptr<ServerProcess> server_;
  // The first server's; the others listen there too.
  std::string address_;
};

TEST_F(RestoredTrainingTest, EndsWithTheBitsOfOneThatNothingDisturbs) {
  CreateGroup("disturbed");
  ASSERT_OK(ClientOf("")->SaveCheckpoint("first"));
  Progress progress;
  std::atomic<bool> is_done = false;
  std::thread saver([&] { SaveUntil(is_done, progress); });
  std::thread killer([&] { KillAgainAndAgain(progress); });
  const std::vector<std::string> disturbed = TrainAll("disturbed", progress);
  killer.join();
  is_done = true;
  saver.join();
  CreateGroup("undisturbed");
  Progress all_at_once;
  all_at_once.Allow(kNumSteps);

  const std::vector<std::string> undisturbed =
      TrainAll("undisturbed", all_at_once);

  EXPECT_EQ(disturbed, undisturbed);
  EXPECT_GE(progress.num_back(), static_cast<int>(kNumWorkers));
  EXPECT_EQ(all_at_once.num_back(), 0);
}

}  // namespace
}  // namespace tensorkv::testing
