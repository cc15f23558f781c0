// What callers may do where calls end, and which blocks: it says so.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/scoped_blocking_call.h"
#include "client/internal/calls/task_mutex.h"
#include "client/internal/retry/retry_loop.h"
#include "client/internal/worker/lease_renewal.h"
#include "client/local/local_connection.h"
#include "gtest/gtest.h"
#include "tests/client/call_verb.h"
#include "tests/client/scripted_client.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::CallVerb;
using ::tensorkv::testing::ScriptedClientTest;

class Counter final : public BlockingObserver {
 public:
  bool BlockingBegins() override { return ++num_told > 0; }
  void BlockingEnds() override {}

  int num_told = 0;
};

using BlockingCallsTest = ScriptedClientTest;

TEST_F(BlockingCallsTest, SayThatTheyBlock) {
  TaskMutex mutex;
  EXPECT_OK(mutex.Lock(absl::ZeroDuration(), nullptr, nullptr).Run());
  LocalConnection local;
  Client worker = MakeWorker();
  auto renewal = std::make_unique<LeaseRenewal>(worker, absl::Hours(1));
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"lock",
       [&] {
         mutex.Lock(absl::Milliseconds(1), nullptr, nullptr)
             .Run()
             .IgnoreError();
       }},
      {"sleep",
       [] { SystemRetryEnvironment().sleep(absl::ZeroDuration(), nullptr); }},
      {"end of a lease's renewal", [&] { renewal = nullptr; }},
      {"call to a store in this process",
       [&] { CallVerb("Stat", local).IgnoreError(); }},
  };

  for (const auto& [name, call] : calls) {
    Counter counter;
    ScopedBlockingCall::ObserveThisThread(&counter);
    call();
    ScopedBlockingCall::ObserveThisThread(nullptr);
    EXPECT_EQ(counter.num_told, 1) << name;
  }
}

}  // namespace
}  // namespace tensorkv
