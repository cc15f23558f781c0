// A worker that contributes to the rounds of a group, writes down what it was
// answered, and kills itself where it was told to.
//
//   fault_worker TARGET NAMESPACE NAME LEASE_MS NUM_STEPS POINT LIFE DELAY_US
//
// POINT: none, joining, before_push, during_push, after_push, during_pull,
// after_pull, during_barrier. The worker dies in the LIFE-th step of its life
// in which it comes to that point; "during" is DELAY_US after the call began,
// and so is joining, which comes first.
// Each call is a line of stdout, written at once:
//
//   VERB STEP BEGIN_US END_US CODE VALUE VERSION MESSAGE
//
// with times of the monotonic clock, which all processes share; of joins, value
// and version are rank and epoch. Exit status 0 when the group has made all
// steps.

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "client/steady_now.h"
#include "client/worker_client.h"
#include "tests/integration/fault_model.h"

namespace tensorkv::testing {
namespace {

struct Plan {
  std::string target;
  std::string name_space;
  std::string name;
  absl::Duration lease;
  Step num_steps = 0;
  std::string point;
  int life = 0;
  absl::Duration delay;
};

class FaultWorker {
 public:
  explicit FaultWorker(Plan plan) : plan_(std::move(plan)) {}

  int Run() {
    if (!Join()) return 1;
    while (worker_->step() < plan_.num_steps) {
      ++steps_lived_;
      const Step step = worker_->step() + 1;
      if (!MakeStep(step)) Recover();
    }
    return 0;
  }

 private:
  bool Join() {
    DieDuring("joining");
    const absl::Duration begin = SteadyNow();
    absl::StatusOr<std::unique_ptr<WorkerClient>> worker =
        WorkerClient::Join({.target = plan_.target,
                            .name_space = plan_.name_space,
                            .timeout = absl::Minutes(1)},
                           {.name = plan_.name,
                            .lease = plan_.lease,
                            .takeover_timeout = absl::Minutes(1)});
    const bool is_member = worker.ok();
    Log("join", 0, begin, worker.status(), is_member ? (*worker)->rank() : 0,
        is_member ? (*worker)->epoch() : 0);
    if (is_member) worker_ = *std::move(worker);
    return is_member;
  }

  // Whether the step is complete: the round has closed.
  bool MakeStep(Step step) {
    if (step % kStepsPerBarrier == 0 && !Barrier(step)) return false;
    DieAt("before_push");
    return step % 2 == 0 ? PushPull(step) : PushThenPull(step);
  }

  bool Barrier(Step step) {
    DieDuring("during_barrier");
    const absl::Duration begin = SteadyNow();
    const absl::Status status =
        worker_->Barrier(absl::StrCat("before step ", step));
    Log("barrier", step, begin, status, 0, 0);
    return status.ok();
  }

  bool PushPull(Step step) {
    DieDuring("during_push");
    const absl::Duration begin = SteadyNow();
    absl::StatusOr<Value> value = worker_->client().PushPull(
        kFaultKey, ContributionOf(worker_->rank(), step), {.step = step});
    LogValue("push_pull", step, begin, value);
    DieAt("after_pull");
    return value.ok() || (IsThere(value.status()) && Pull(step));
  }

  bool PushThenPull(Step step) {
    DieDuring("during_push");
    const absl::Duration begin = SteadyNow();
    const absl::Status status =
        worker_->client()
            .Push(kFaultKey, ContributionOf(worker_->rank(), step),
                  {.step = step})
            .status();
    Log("push", step, begin, status, 0, 0);
    DieAt("after_push");
    return (status.ok() || IsThere(status)) && Pull(step);
  }

  // Whether the contribution has been made, by a call whose wait failed.
  static bool IsThere(const absl::Status& status) {
    return absl::IsAlreadyExists(status);
  }

  bool Pull(Step step) {
    DieDuring("during_pull");
    const absl::Duration begin = SteadyNow();
    absl::StatusOr<Value> value = worker_->client().Pull(kFaultKey);
    LogValue("pull", step, begin, value);
    DieAt("after_pull");
    return value.ok();
  }

  // The round has failed, and its contributions are dropped; or this worker was
  // too slow, and is a member no more.
  void Recover() {
    absl::SleepFor(plan_.lease / 20);
    if (!is_fenced_) is_fenced_ = !worker_->SyncStep().ok();
    if (!is_fenced_) return;
    const absl::Duration begin = SteadyNow();
    const absl::Status status = worker_->Rejoin();
    is_fenced_ = !status.ok();
    Log("rejoin", worker_->step(), begin, status, worker_->rank(),
        worker_->epoch());
  }

  bool IsTimeToDie(const std::string& point) const {
    if (plan_.point != point) return false;
    return point == "joining" || steps_lived_ >= plan_.life;
  }

  void DieAt(const std::string& point) {
    if (IsTimeToDie(point)) kill(getpid(), SIGKILL);
  }

  void DieDuring(const std::string& point) {
    if (!IsTimeToDie(point)) return;
    std::thread([delay = plan_.delay] {
      absl::SleepFor(delay);
      kill(getpid(), SIGKILL);
    }).detach();
  }

  void LogValue(const char* verb, Step step, absl::Duration begin,
                const absl::StatusOr<Value>& value) {
    if (!value.ok()) return Log(verb, step, begin, value.status(), 0, 0);
    Log(verb, step, begin, absl::OkStatus(),
        static_cast<int64_t>(value->tensor.elements<double>()[0]),
        value->version);
  }

  void Log(const char* verb, Step step, absl::Duration begin,
           const absl::Status& status, int64_t value, Version version) {
    is_fenced_ |= absl::IsFailedPrecondition(status);
    const std::string line = absl::StrCat(
        verb, " ", step, " ", absl::ToInt64Microseconds(begin), " ",
        absl::ToInt64Microseconds(SteadyNow()), " ",
        static_cast<int>(status.code()), " ", value, " ", version, " ",
        absl::StrReplaceAll(status.message(), {{"\n", " "}}), "\n");
    // In one piece: the process may end at any moment.
    if (write(STDOUT_FILENO, line.data(), line.size()) < 0) std::abort();
  }

  const Plan plan_;
  int steps_lived_ = 0;
  bool is_fenced_ = false;
  std::unique_ptr<WorkerClient> worker_;
};

}  // namespace
}  // namespace tensorkv::testing

int main(int argc, char** argv) {
  using tensorkv::testing::FaultWorker;
  if (argc != 9) {
    std::cerr << "fault_worker: expected 8 arguments\n";
    return 2;
  }
  return FaultWorker({.target = argv[1],
                      .name_space = argv[2],
                      .name = argv[3],
                      .lease = absl::Milliseconds(std::atoi(argv[4])),
                      .num_steps = std::strtoull(argv[5], nullptr, 10),
                      .point = argv[6],
                      .life = std::atoi(argv[7]),
                      .delay = absl::Microseconds(std::atoi(argv[8]))})
      .Run();
}
