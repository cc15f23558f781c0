// A worker that contributes to the rounds of a group, writes down what it was
// answered, and kills itself where it was told to.
//
//   fault_worker TARGET NAMESPACE NAME LEASE_MS TIMEOUT_MS NUM_STEPS POINT LIFE
//                DELAY_US
//
// TIMEOUT_MS is that of each call; what it ends is made again.
//
// POINT: none, joining, before_push, during_push, between_pushes, after_push,
// during_pull, after_pull. The worker dies in the LIFE-th step of its life in
// which it comes to that point; "during" is DELAY_US after the call began, and
// so is joining, which comes first.
//
// Each call that goes to the server is a line of stdout, written at once, and
// so are each value that the loop gets, as "read", and that the worker fails:
//
//   VERB STEP BEGIN_US END_US CODE REASON KEY VALUE VERSION MESSAGE
//
// with times of the monotonic clock, which all processes share; of joins, value
// and version are rank and epoch. "-" stands for no key and no reason. Exit
// status 0 when the group has made all steps.

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/cluster/connect.h"
#include "client/internal/steady_now.h"
#include "client/worker_client.h"
#include "contract/reason.h"
#include "tests/client/shared_connection.h"
#include "tests/integration/fault_model.h"

namespace tensorkv::testing {
namespace {

struct LogLine {
  std::string verb;
  Step step = 0;
  absl::Duration begin;
  absl::Status status;
  std::string key = "-";
  int64_t value = 0;
  uint64_t version = 0;
};

void Log(const LogLine& line) {
  const Reason reason = ReasonOf(line.status);
  const std::string text = absl::StrCat(
      line.verb, " ", line.step, " ", absl::ToInt64Microseconds(line.begin),
      " ", absl::ToInt64Microseconds(SteadyNow()), " ",
      static_cast<int>(line.status.code()), " ",
      reason == Reason::kUnspecified ? "-" : ReasonName(reason), " ", line.key,
      " ", line.value, " ", line.version, " ",
      absl::StrReplaceAll(line.status.message(), {{"\n", " "}}), "\n");
  // In one piece: the process may end at any moment.
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) std::abort();
}

// Writes down the calls that may wait for other workers.
class LoggedConnection final : public SharedConnection {
 public:
  using SharedConnection::SharedConnection;

  absl::Status Attempt(const AnyCall& call,
                       const CallOptions& options) override {
    const absl::Duration begin = SteadyNow();
    const absl::Status status = SharedConnection::Attempt(call, options);
    call.Visit([&](const auto& request, const auto& reply) {
      if constexpr (requires { LineOf(request, reply); }) {
        LogLine line = LineOf(request, reply);
        line.begin = begin;
        line.status = status;
        Log(line);
      }
    });
    return status;
  }

 private:
  static LogLine LineOf(const PushRequest& request, const PushReply&) {
    return {"push", request.step};
  }
  static LogLine LineOf(const PullRequest&, const PullReply&) {
    return {"pull", 0};
  }
  static LogLine LineOf(const PushPullRequest& request, const PullReply&) {
    return {"push_pull", request.step};
  }
  // The reply says nothing if the call has failed.
  static LogLine LineOf(const JoinRequest& request, const JoinReply& reply) {
    LogLine line = {request.replaces_epoch() == 0 ? "join" : "rejoin",
                    reply.next_step()};
    line.value = reply.worker().rank();
    line.version = reply.worker().epoch();
    return line;
  }
};

struct Plan {
  std::string target;
  std::string name_space;
  std::string name;
  absl::Duration lease;
  absl::Duration call_timeout;
  Step num_steps = 0;
  std::string point;
  int life = 0;
  absl::Duration delay;
};

class FaultWorker {
 public:
  explicit FaultWorker(Plan plan)
      : plan_(std::move(plan)),
        connection_(
            ConnectTo({.target = plan_.target}, /*observer=*/nullptr, Backoff())
                .value()) {}

  // The loop has no branch on errors but where a server has gone back: whatever
  // happens to others, and to this worker's lease, is none.
  absl::Status Run() {
    DieDuring("joining");
    ASSIGN_OR_RETURN(worker_, Join());
    for (Step step = worker_->Resume(); step <= plan_.num_steps;
         step = worker_->Resume()) {
      ++steps_lived_;
      DieAt("before_push");
      if (IsTimeToDie("failing")) {
        Log({.verb = "fails", .begin = SteadyNow()});
        worker_->Leave(LeaveCause::kLost).IgnoreError();
        kill(getpid(), SIGKILL);
      }
      const absl::Duration begin = SteadyNow();
      const absl::StatusOr<PullReply> reply = MakeStep(step);
      // Values may be from before the step then.
      if (worker_->state() == WorkerState::kGoneBack) continue;
      RETURN_IF_ERROR(reply.status());
      LogValues(step, begin, *reply);
      DieAt("after_pull");
    }
    return worker_->Leave();
  }

 private:
  // Only the verbs of a step make calls again that end by their timeout.
  absl::StatusOr<std::unique_ptr<WorkerClient>> Join() const {
    const absl::Duration end = SteadyNow() + absl::Minutes(1);
    for (;;) {
      auto worker = WorkerClient::Join(
          std::make_unique<Client>(
              std::make_unique<LoggedConnection>(*connection_),
              ClientOptions{.name_space = plan_.name_space,
                            .timeout = plan_.call_timeout}),
          {.name = plan_.name, .lease = plan_.lease});
      const bool is_unreached = absl::IsUnavailable(worker.status()) ||
                                absl::IsDeadlineExceeded(worker.status());
      if (!is_unreached || SteadyNow() > end) return worker;
    }
  }

  // Makes a step, and sometimes the next one with it. Returns the values, which
  // contain them.
  absl::StatusOr<PullReply> MakeStep(Step& step) {
    DieDuring("during_push");
    switch (step % 4) {
      case 1:
        RETURN_IF_ERROR(worker_->Push(step, Entries(step, {0})));
        DieAt("between_pushes");
        RETURN_IF_ERROR(worker_->Push(step, Entries(step, {1})));
        break;
      case 2:
        RETURN_IF_ERROR(worker_->Push(step, Entries(step, {0, 1})));
        if (step == plan_.num_steps) break;
        ++step;
        DieAt("between_pushes");
        RETURN_IF_ERROR(worker_->Push(step, Entries(step, {0, 1})));
        break;
      default:
        return worker_->PushPull(step, Entries(step, {0, 1}));
    }
    DieAt("after_push");
    DieDuring("during_pull");
    return worker_->Pull({kFaultKeys[0], kFaultKeys[1]});
  }

  std::vector<PushEntry> Entries(Step step, const std::vector<int>& keys) {
    std::vector<PushEntry> entries;
    for (const int key : keys) {
      entries.push_back({.key = kFaultKeys[key],
                         .tensor = ContributionOf(worker_->rank(), key, step)});
    }
    return entries;
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

  void LogValues(Step step, absl::Duration begin, const PullReply& reply) {
    for (size_t key = 0; key < reply.values.size(); ++key) {
      const Value& value = reply.values[key];
      Log({.verb = "read",
           .step = step,
           .begin = begin,
           .key = kFaultKeys[key],
           .value = static_cast<int64_t>(value.tensor.elements<double>()[0]),
           .version = value.version});
    }
  }

  const Plan plan_;
  const std::unique_ptr<Connection> connection_;
  int steps_lived_ = 0;
  std::unique_ptr<WorkerClient> worker_;
};

}  // namespace
}  // namespace tensorkv::testing

int main(int argc, char** argv) {
  using tensorkv::testing::FaultWorker;
  if (argc != 10) {
    std::cerr << "fault_worker: expected 9 arguments\n";
    return 2;
  }
  const absl::Status status =
      FaultWorker({.target = argv[1],
                   .name_space = argv[2],
                   .name = argv[3],
                   .lease = absl::Milliseconds(std::atoi(argv[4])),
                   .call_timeout = absl::Milliseconds(std::atoi(argv[5])),
                   .num_steps = std::strtoull(argv[6], nullptr, 10),
                   .point = argv[7],
                   .life = std::atoi(argv[8]),
                   .delay = absl::Microseconds(std::atoi(argv[9]))})
          .Run();
  if (status.ok()) return 0;
  std::cerr << "fault_worker: " << argv[2] << " " << argv[3] << ": " << status
            << "\n";
  return 1;
}
