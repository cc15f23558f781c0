// Workers that are killed at any moment: nothing hangs, nothing that was
// acknowledged is lost, nothing is applied twice.
//
// 200 kills, and calls end a second after the lease at the latest; others with
// --test_arg=--kills=2000 and --test_arg=--slack_ms=5000.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/client.h"
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

// What one group has done, looked at from all sides.
class FaultReport {
 public:
  explicit FaultReport(const FaultGroup& group)
      : calls_(group.calls()), deaths_(group.deaths()) {}

  // Every value read in a step is that of a sequential run up to the step.
  void ExpectValuesOfTheModel() const {
    for (const FaultCall& call : calls_) {
      if (call.code != absl::StatusCode::kOk) continue;
      if (call.verb != "pull" && call.verb != "push_pull") continue;
      EXPECT_EQ(call.value, SumAfter(kNumWorkers, call.step)) << Text(call);
      EXPECT_EQ(call.version, call.step + 1) << Text(call);
    }
  }

  // Whatever was under way when a worker died has ended in time.
  void ExpectNobodyHangs() const {
    for (const FaultDeath& death : deaths_) {
      for (const FaultCall& call : calls_) {
        if (call.slot == death.slot || IsJoin(call)) continue;
        if (call.begin > death.when || call.end < death.when) continue;
        EXPECT_LE(call.end - death.when, kLease + absl::Milliseconds(slack_ms))
            << Text(call);
      }
    }
  }

  // Whoever fails hears who was lost.
  void ExpectFailuresNameTheDead() const {
    for (const FaultCall& call : calls_) {
      if (call.code != absl::StatusCode::kAborted) continue;
      EXPECT_TRUE(NamesOneOfTheDead(call)) << Text(call);
    }
  }

  // Nobody else's call fails for any other reason than a loss: the dead one's
  // (Aborted), the caller's own (FailedPrecondition), or because the push that
  // is repeated after one is there (AlreadyExists).
  void ExpectNoOtherFailures() const {
    for (const FaultCall& call : calls_) {
      EXPECT_TRUE(call.code == absl::StatusCode::kOk ||
                  call.code == absl::StatusCode::kAborted ||
                  call.code == absl::StatusCode::kFailedPrecondition ||
                  call.code == absl::StatusCode::kAlreadyExists)
          << Text(call) << " " << static_cast<int>(call.code);
    }
  }

  size_t NumAborted() const {
    return std::count_if(calls_.begin(), calls_.end(), [](const auto& call) {
      return call.code == absl::StatusCode::kAborted;
    });
  }

 private:
  static bool IsJoin(const FaultCall& call) {
    return call.verb == "join" || call.verb == "rejoin";
  }

  bool NamesOneOfTheDead(const FaultCall& call) const {
    for (const uint32_t rank : RanksLostBefore(call.end)) {
      if (absl::StrContains(call.message, absl::StrCat("rank ", rank))) {
        return true;
      }
    }
    return false;
  }

  // By death, or because they were too slow.
  std::set<uint32_t> RanksLostBefore(absl::Duration when) const {
    std::set<uint32_t> ranks;
    for (const FaultDeath& death : deaths_) {
      if (death.when < when) ranks.merge(RanksOf(death.slot));
    }
    for (const FaultCall& call : calls_) {
      if (call.verb == "rejoin") ranks.insert(call.value);
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
    ASSERT_OK(
        client->Init(kFaultKey, Full({kNumFaultElements}, 0, DType::kF64)));
  }

  struct Outcome {
    size_t num_deaths = 0;
    size_t num_aborted = 0;
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
    report.ExpectNobodyHangs();
    report.ExpectFailuresNameTheDead();
    report.ExpectNoOtherFailures();
    EXPECT_THAT(ClientOf(name)->Pull(kFaultKey),
                IsOkAndHolds(::testing::AllOf(
                    HasTensor(IsFilledWith(SumAfter(kNumWorkers, num_steps))),
                    HasVersion(num_steps + 1))));
    return {group.deaths().size(), report.NumAborted()};
  }

  ServerProcess server_;
  const std::string target_;
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
    total.num_aborted += each.num_aborted;
  }
  std::cout << total.num_deaths << " workers were killed, " << total.num_aborted
            << " calls of others aborted\n";
  EXPECT_GE(total.num_deaths, static_cast<size_t>(num_kills));
  EXPECT_GT(total.num_aborted, 0u);
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
