// A member of a group that adds 1 to an element of its own, step after step,
// until it is told to end (SIGTERM) or killed.
//
//   fault_member TARGET NAMESPACE NAME ELEMENT LEASE_MS
//
// Of each push it writes to stdout, each as one byte: 'b' when it begins, and
// at its end '.' if it was acknowledged, 'x' if it was refused or had been made
// by a former life. A push with neither end may have been applied or not.

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "client/worker_client.h"
#include "contract/reason.h"
#include "tensor/tensor.h"
#include "tests/integration/fault_model.h"

namespace tensorkv::testing {
namespace {

volatile std::sig_atomic_t must_end = 0;

void Log(char mark) {
  if (write(STDOUT_FILENO, &mark, 1) != 1) std::abort();
}

Tensor OneAt(int element) {
  Tensor tensor = *Tensor::Filled(DType::kF64, {kNumFaultElements}, 0);
  tensor.mutable_elements<double>()[element] = 1;
  return tensor;
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsAborted(status) ||
         absl::IsResourceExhausted(status);
}

class FaultMember {
 public:
  FaultMember(std::unique_ptr<WorkerClient> worker, int element)
      : worker_(std::move(worker)), one_(OneAt(element)) {}

  void Run() {
    for (Step step = NextStep(); !must_end; ++step) {
      if (!MakeStep(step)) step = NextStep() - 1;
    }
    worker_->Leave().IgnoreError();
  }

 private:
  // The verbs of the plain client say what became of each push: one that comes
  // too late is refused, and one that a former life has made is no new one.
  bool MakeStep(Step step) {
    Log('b');
    const absl::StatusOr<PushResult> pushed =
        worker_->client().Push(kFaultKeys[0], one_, {.step = step});
    if (pushed.ok()) Log(pushed->repeated ? 'x' : '.');
    if (IsRefusal(pushed.status())) Log('x');
    if (ReasonOf(pushed.status()) == Reason::kStepClosed) return true;
    return pushed.ok() && worker_->client().Pull(kFaultKeys[0]).ok();
  }

  // The step to push next, as a member again if need be.
  Step NextStep() {
    for (;;) {
      const absl::StatusOr<KeepAliveReply> reply =
          worker_->client().KeepAlive(absl::Seconds(1));
      if (reply.ok() || must_end) return reply.ok() ? reply->next_step() : 1;
      worker_->Rejoin().IgnoreError();
    }
  }

  const std::unique_ptr<WorkerClient> worker_;
  const Tensor one_;
};

int Run(char** arguments) {
  std::signal(SIGTERM, [](int) { must_end = 1; });
  absl::StatusOr<std::unique_ptr<WorkerClient>> worker = WorkerClient::Join(
      {.target = arguments[1],
       .name_space = arguments[2],
       .timeout = absl::Minutes(1)},
      {.name = arguments[3],
       .lease = absl::Milliseconds(std::atoi(arguments[5]))});
  if (!worker.ok()) {
    std::cerr << "fault_member: " << worker.status() << "\n";
    return 1;
  }
  FaultMember(*std::move(worker), std::atoi(arguments[4])).Run();
  return 0;
}

}  // namespace
}  // namespace tensorkv::testing

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "fault_member: expected 5 arguments\n";
    return 2;
  }
  return tensorkv::testing::Run(argv);
}
