#include "tests/contracts/store_contract.h"

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "contract/reason.h"
#include "gmock/gmock.h"
#include "tests/testing/background.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::testing {

Caller StoreContractTest::NewNamespace(const std::string& name,
                                       const NamespaceConfig& config) {
  const Caller caller = store_.In(name);
  EXPECT_OK(caller.Create(config));
  return caller;
}

Caller StoreContractTest::NewSyncNamespace(uint32_t num_workers,
                                           const std::string& rule) {
  return NewNamespace("sync", {.mode = Mode::kSync,
                               .num_workers = num_workers,
                               .rule = ParseRuleSpec(rule).value()});
}

void StoreContractTest::AwaitWaitingCalls(const Caller& caller,
                                          uint64_t num_calls) {
  EXPECT_TRUE(Eventually([&] {
    const absl::StatusOr<NamespaceStatus> status = caller.Describe();
    return status.ok() && status->calls_waiting() == num_calls;
  })) << "no "
      << num_calls << " calls waiting: " << caller.Describe().status();
}

void StoreContractTest::CancelOnceItWaits(
    const Caller& caller,
    absl::FunctionRef<absl::Status(const std::shared_ptr<Canceller>&)> call) {
  const auto canceller = std::make_shared<Canceller>();
  Background wait([&] { return call(canceller); });
  AwaitWaitingCalls(caller, 1);
  canceller->Cancel();
  // A stripe may hear first that another one is gone.
  EXPECT_THAT(wait.Result(),
              ::testing::AnyOf(StatusIs(absl::StatusCode::kCancelled),
                               StatusIs(absl::StatusCode::kAborted)));
  AwaitWaitingCalls(caller, 0);
}

void RunConcurrently(int num_threads, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < num_threads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

absl::Status EndOfWait(const Caller& caller,
                       absl::FunctionRef<absl::Status(const Caller&)> wait) {
  absl::Status status;
  for (absl::Duration timeout = absl::Milliseconds(50);
       timeout < absl::Minutes(1) && ReasonOf(status) != Reason::kWaitEnded;
       timeout *= 2) {
    status = wait(caller.WithTimeout(timeout));
  }
  return status;
}

void ExpectWaitNames(absl::string_view missing, const Caller& caller,
                     absl::FunctionRef<absl::Status(const Caller&)> wait) {
  EXPECT_THAT(EndOfWait(caller, wait),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       ::testing::HasSubstr(std::string(missing))));
}

bool Eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace tensorkv::testing
