// Workers that are killed at any moment: nothing hangs, nothing that was
// acknowledged is lost, nothing is applied twice.
//
// The workers' loops have no branch on errors. A false loss of a worker, which
// a busy machine may cause, does no harm either.
//
// 200 kills, and calls end a second after the lease at the latest, besides what
// the machine was late in that time; others with --test_arg=--kills=2000 and
// --test_arg=--slack_ms=5000.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/mutex.h"
#include "client/client.h"
#include "client/internal/steady_now.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/fault_group.h"
#include "tests/integration/fault_model.h"
#include "tests/integration/server_process.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

int num_kills = 200;
// Beyond the lease.
int slack_ms = 1000;

constexpr int kNumGroups = 6;
constexpr uint32_t kNumWorkers = 3;
constexpr absl::Duration kLease = absl::Seconds(1);

std::string Text(const FaultCall& call) {
  return absl::StrCat("worker", call.slot, " ", call.verb, " of step ",
                      call.step, ":", call.message);
}

// How late the machine lets a thread run that has nothing to do.
class Lateness {
 public:
  Lateness() : watcher_([this] { Watch(); }) {}
  ~Lateness() {
    {
      MutexLock lock(&mutex_);
      ends_ = true;
      ending_.SignalAll();
    }
    watcher_.join();
  }

  absl::Duration Between(absl::Duration begin, absl::Duration end) const {
    MutexLock lock(&mutex_);
    absl::Duration sum;
    for (const auto& [when, late] : late_) {
      if (when >= begin && when - late <= end) sum += late;
    }
    return sum;
  }

 private:
  void Watch() {
    constexpr absl::Duration kPause = absl::Milliseconds(10);
    MutexLock lock(&mutex_);
    while (!ends_) {
      const absl::Duration begin = SteadyNow();
      ending_.WaitWithTimeout(&mutex_, kPause);
      const absl::Duration late = SteadyNow() - begin - kPause;
      if (late > kPause) late_.push_back({SteadyNow(), late});
    }
  }

  mutable Mutex mutex_;
  CondVar ending_;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::pair<absl::Duration, absl::Duration>> late_
      ABSL_GUARDED_BY(mutex_);
  std::thread watcher_;
};

// What one group has done, looked at from all sides.
class FaultReport {
 public:
  explicit FaultReport(const FaultGroup& group)
      : calls_(group.calls()), deaths_(group.deaths()) {}

  // Every value read in a step is that of a sequential run up to the step.
  void ExpectValuesOfTheModel() const {
    for (const FaultCall& call : calls_) {
      if (call.verb != "read") continue;
      const int key = call.key == kFaultKeys[0] ? 0 : 1;
      EXPECT_EQ(call.value, SumAfter(kNumWorkers, key, call.step))
          << Text(call);
    }
  }

  // Whatever was under way when a worker died has ended in time. Returns how
  // long after the death that was at most.
  absl::Duration ExpectNobodyHangs(const Lateness& lateness) const {
    absl::Duration longest;
    for (const FaultDeath& death : deaths_) {
      for (const FaultCall& call : calls_) {
        if (call.slot == death.slot || IsJoin(call) || call.verb == "read") {
          continue;
        }
        if (call.begin > death.when || call.end < death.when) continue;
        longest = std::max(longest, call.end - death.when);
        EXPECT_LE(call.end - death.when,
                  kLease + absl::Milliseconds(slack_ms) +
                      lateness.Between(death.when, call.end))
            << Text(call);
      }
    }
    return longest;
  }

  // Whoever fails hears who was lost.
  void ExpectFailuresNameTheLost() const {
    for (const FaultCall& call : calls_) {
      if (call.reason != "ROUND_FAILED") continue;
      EXPECT_TRUE(NamesOneOfTheLost(call)) << Text(call);
    }
  }

  // No call fails for any other reason than a loss: another worker's, or the
  // caller's own.
  void ExpectNoOtherFailures() const {
    for (const FaultCall& call : calls_) {
      if (call.code == absl::StatusCode::kOk) continue;
      const bool may_be = IsJoin(call) ? call.reason == "WORKER_NAME_TAKEN"
                                       : call.reason == "ROUND_FAILED" ||
                                             call.reason == "LEASE_LOST";
      EXPECT_TRUE(may_be) << Text(call) << " " << call.reason << " "
                          << static_cast<int>(call.code);
    }
  }

  size_t Num(absl::string_view reason) const {
    return std::count_if(calls_.begin(), calls_.end(), [&](const auto& call) {
      return call.reason == reason;
    });
  }

 private:
  static bool IsJoin(const FaultCall& call) {
    return call.verb == "join" || call.verb == "rejoin";
  }

  bool NamesOneOfTheLost(const FaultCall& call) const {
    for (const uint32_t rank : RanksLostBefore(call.end)) {
      if (absl::StrContains(call.message, absl::StrCat("rank ", rank))) {
        return true;
      }
    }
    return false;
  }

  // By death, because they said that they fail, or because they were too slow.
  std::set<uint32_t> RanksLostBefore(absl::Duration when) const {
    std::set<uint32_t> ranks;
    for (const FaultDeath& death : deaths_) {
      if (death.when < when) ranks.merge(RanksOf(death.slot));
    }
    for (const FaultCall& call : calls_) {
      if (call.reason == "LEASE_LOST" ||
          (call.verb == "fails" && call.begin < when)) {
        ranks.merge(RanksOf(call.slot));
      }
    }
    return ranks;
  }

  std::set<uint32_t> RanksOf(uint32_t slot) const {
    std::set<uint32_t> ranks;
    for (const FaultCall& call : calls_) {
      if (call.slot == slot && IsJoin(call)) ranks.insert(call.value);
    }
    return ranks;
  }

  const std::vector<FaultCall>& calls_;
  const std::vector<FaultDeath>& deaths_;
};

class FaultSuiteTest : public ::testing::Test {
 protected:
  FaultSuiteTest()
      : server_({"--listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0",
                 "--budget=256MiB"}),
        target_(server_.AwaitAddress()) {}

  std::unique_ptr<Client> ClientOf(const std::string& name_space) {
    return Client::Connect({.target = target_, .name_space = name_space})
        .value();
  }

  void CreateNamespace(const std::string& name) {
    const std::unique_ptr<Client> client = ClientOf(name);
    ASSERT_OK(client->CreateNamespace(
        name, {.mode = Mode::kSync,
               .num_workers = kNumWorkers,
               .rule = ParseRuleSpec("accumulate").value()}));
    for (const char* key : kFaultKeys) {
      ASSERT_OK(client->Init(key, Full({kNumFaultElements}, 0, DType::kF64)));
    }
  }

  struct Outcome {
    size_t num_deaths = 0;
    size_t num_round_failures = 0;
    size_t num_lost_leases = 0;
    absl::Duration longest_wait;
  };

  Outcome RunGroup(int index) {
    const std::string name = absl::StrCat("group", index);
    CreateNamespace(name);
    const int kills = (num_kills + kNumGroups - 1) / kNumGroups;
    // A group dies about once in five steps.
    const Step num_steps = 8 * kills + 20;
    FaultGroup group({.target = target_,
                      .name_space = name,
                      .num_workers = kNumWorkers,
                      .lease = kLease,
                      .num_steps = num_steps,
                      .num_kills = kills,
                      .seed = static_cast<uint64_t>(index)});
    group.Run();

    const FaultReport report(group);
    report.ExpectValuesOfTheModel();
    report.ExpectFailuresNameTheLost();
    report.ExpectNoOtherFailures();
    for (int key = 0; key < kNumFaultKeys; ++key) {
      EXPECT_THAT(ClientOf(name)->Pull(kFaultKeys[key]),
                  IsOkAndHolds(HasTensor(
                      IsFilledWith(SumAfter(kNumWorkers, key, num_steps)))));
    }
    return {.num_deaths = group.deaths().size(),
            .num_round_failures = report.Num("ROUND_FAILED"),
            .num_lost_leases = report.Num("LEASE_LOST"),
            .longest_wait = report.ExpectNobodyHangs(lateness_)};
  }

  ServerProcess server_;
  const std::string target_;
  const Lateness lateness_;
};

TEST_F(FaultSuiteTest, GroupsSurviveTheDeathOfTheirWorkers) {
  std::vector<Outcome> outcomes(kNumGroups);
  std::vector<std::thread> groups;
  for (int i = 0; i < kNumGroups; ++i) {
    groups.emplace_back([&, i] { outcomes[i] = RunGroup(i); });
  }
  for (std::thread& group : groups) group.join();

  Outcome total;
  for (const Outcome& each : outcomes) {
    total.num_deaths += each.num_deaths;
    total.num_round_failures += each.num_round_failures;
    total.num_lost_leases += each.num_lost_leases;
    total.longest_wait = std::max(total.longest_wait, each.longest_wait);
  }
  std::cout << total.num_deaths << " workers were killed, "
            << total.num_round_failures << " calls of others heard of it, "
            << total.num_lost_leases
            << " calls were of workers taken for lost, the longest wait after "
            << "a death was " << total.longest_wait << "\n";
  EXPECT_GE(total.num_deaths, static_cast<size_t>(num_kills));
  EXPECT_GT(total.num_round_failures, 0u);
}

}  // namespace
}  // namespace tensorkv::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    int* const number = absl::ConsumePrefix(&argument, "--kills=")
                            ? &tensorkv::testing::num_kills
                        : absl::ConsumePrefix(&argument, "--slack_ms=")
                            ? &tensorkv::testing::slack_ms
                            : nullptr;
    if (number == nullptr || !absl::SimpleAtoi(argument, number)) {
      std::cerr << "unknown argument: " << argv[i] << "\n";
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
