// Groups that train on three servers while any process is killed at any moment:
// a server, which comes back from its last checkpoint, a worker, which comes
// back under its name, or etcd. Nothing hangs, nothing that was acknowledged is
// lost for good, nothing is applied twice.
//
// 6 faults; others with --test_arg=--faults=500, and other draws with
// --test_arg=--seed=2.

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "client/internal/steady_now.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/history/history_checker.h"
#include "tests/integration/etcd_process.h"
#include "tests/integration/fault_group.h"
#include "tests/integration/fault_model.h"
#include "tests/integration/server_process.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

int num_faults = 6;
int seed = 1;

constexpr size_t kNumServers = 3;
constexpr uint32_t kNumWorkers = 3;
constexpr int kWorkerKillsPerGroup = 2;
constexpr Step kStepsPerGroup = 1000;
// What a server has lost, workers that have left do not bring back: servers die
// while the group is no further than this.
constexpr Version kLastFault = kStepsPerGroup / 2;
constexpr absl::Duration kLease = absl::Seconds(2);
// Calls end so long after the lease, or after all processes are back: in that
// time workers join again and make the steps again that a server has lost since
// its last checkpoint, a second before.
constexpr absl::Duration kSlack = absl::Seconds(2);
// What that may take on a machine that does much else besides. It is well below
// the minute after which a call that waits in vain would end by itself.
constexpr absl::Duration kOfLoad = absl::Seconds(20);

// From a death until the process, or another in its place, takes calls again.
struct Outage {
  absl::Duration begin;
  absl::Duration end;
};

class FaultyCluster {
 public:
  FaultyCluster() : addresses_(kNumServers, "127.0.0.1:0") {
    std::filesystem::remove_all(directory_);
    for (size_t i = 0; i < kNumServers; ++i) servers_.push_back(Start(i));
    for (auto& server : servers_) server->AwaitLine("cluster: serving");
  }
  ~FaultyCluster() {
    servers_.clear();
    std::filesystem::remove_all(directory_);
  }

  std::string target() const {
    return absl::StrCat("cluster:", absl::StrJoin(addresses_, ","));
  }

  // Kills a process that `random` draws, and starts it again.
  Outage Disturb(std::mt19937_64& random) {
    Outage outage = {.begin = SteadyNow()};
    const size_t drawn = random() % (kNumServers + 1);
    if (drawn == kNumServers) {
      etcd_.Stop();
      etcd_.Start();
    } else {
      servers_[drawn]->Signal(SIGKILL);
      servers_[drawn]->Wait();
      servers_[drawn] = Start(drawn);
      EXPECT_NE(servers_[drawn]->AwaitLine("cluster: serving"), "");
    }
    outage.end = SteadyNow();
    return outage;
  }

 private:
  std::unique_ptr<ServerProcess> Start(size_t i) {
    auto server = std::make_unique<ServerProcess>(std::vector<std::string>{
        "--listen=" + addresses_[i], "--metrics_listen=", "--budget=64MiB",
        "--etcd=" + etcd_.address(), absl::StrCat("--server_name=s", i),
        absl::StrCat("--cluster_size=", kNumServers), "--cluster_partitions=64",
        "--cluster_lease=2s",
        absl::StrCat("--checkpoint_dir=", directory_, "/", i),
        "--checkpoint_interval=1s", "--checkpoint_keep=2"});
    const std::string field = "the cluster listen=";
    const std::string line = server->AwaitLine(field);
    const size_t begin = line.find(field) + field.size();
    addresses_[i] = line.substr(begin, line.find(' ', begin) - begin);
    return server;
  }

  const std::string directory_ =
      absl::StrCat(::testing::TempDir(), "/cluster-faults");
  EtcdProcess etcd_;
  // Where each has listened first; it comes back there.
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
};

class ClusterFaultTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> ClientOf(const std::string& name_space) const {
    return Client::Connect({.target = cluster_.target(),
                            .name_space = name_space,
                            .timeout = absl::Minutes(1)})
        .value();
  }

  // Every server has it in a checkpoint.
  void CreateGroup(const std::string& name) const {
    const std::unique_ptr<Client> client = ClientOf(name);
    ASSERT_OK(client->CreateNamespace(
        name, {.mode = Mode::kSync,
               .num_workers = kNumWorkers,
               .rule = ParseRuleSpec("accumulate").value()}));
    for (const char* key : kFaultKeys) {
      ASSERT_OK(client->Init(key, Full({kNumFaultElements}, 0, DType::kF64)));
    }
    ASSERT_OK(client->SaveCheckpoint(name));
  }

  // A server that comes back with no more than the first step of a namespace
  // counts as one that has had no key of it, and workers do not go back.
  void AwaitStepsInCheckpoints(const std::string& name) const {
    const std::unique_ptr<Client> client = ClientOf(name);
    for (const char* key : kFaultKeys) {
      EXPECT_OK(client->Pull(key, /*min_version=*/3));
    }
    EXPECT_OK(client->SaveCheckpoint(absl::StrCat(name, "-begun")));
  }

  // Runs a group, disturbed until it has ended; the number of faults.
  int RunGroup(const std::string& name) {
    FaultGroup group({.target = cluster_.target(),
                      .name_space = name,
                      .num_workers = kNumWorkers,
                      .lease = kLease,
                      .num_steps = kStepsPerGroup,
                      .num_kills = kWorkerKillsPerGroup,
                      .seed = random_()});
    std::atomic<bool> is_done = false;
    std::vector<Outage> outages;
    std::thread disturber([&] {
      AwaitStepsInCheckpoints(name);
      while (!is_done) {
        // The moment is to be any.
        absl::SleepFor(absl::Microseconds(random_() % 100'000));
        // A client that has seen what a server has lost would not go on.
        const auto value = ClientOf(name)->Pull(kFaultKeys[0]);
        EXPECT_OK(value);
        if (!value.ok() || value->version > kLastFault) break;
        outages.push_back(cluster_.Disturb(random_));
      }
    });
    group.Run();
    is_done = true;
    disturber.join();
    ExpectHistoryOfTheModel(name, group);
    ExpectNobodyHangs(group, std::move(outages));
    return static_cast<int>(outages.size() + group.deaths().size());
  }

  void ExpectHistoryOfTheModel(const std::string& name,
                               const FaultGroup& group) const {
    std::vector<HistoryEvent> reads;
    for (const FaultCall& call : group.calls()) {
      if (call.verb != "read") continue;
      reads.push_back({.kind = HistoryEvent::Kind::kRound,
                       .client = static_cast<int>(call.slot),
                       .begin = call.begin,
                       .end = call.end,
                       .key = call.key,
                       .version = call.version,
                       .value = call.value,
                       .step = call.step});
    }
    const auto sum_after = [](const std::string& key, Step step) {
      return SumAfter(kNumWorkers, key == kFaultKeys[0] ? 0 : 1, step);
    };
    EXPECT_THAT(RestoredRoundViolations(reads, kStepsPerGroup, sum_after),
                ::testing::IsEmpty());
    for (int key = 0; key < kNumFaultKeys; ++key) {
      EXPECT_THAT(ClientOf(name)->Pull(kFaultKeys[key]),
                  IsOkAndHolds(HasTensor(IsFilledWith(
                      SumAfter(kNumWorkers, key, kStepsPerGroup)))));
    }
  }

  // Calls that are under way when something dies end soon after all is back.
  void ExpectNobodyHangs(const FaultGroup& group,
                         std::vector<Outage> outages) const {
    for (const FaultDeath& death : group.deaths()) {
      outages.push_back({death.when, death.when});
    }
    for (const FaultCall& call : group.calls()) {
      if (call.verb == "join" || call.verb == "rejoin") continue;
      absl::Duration all_back = call.begin;
      for (const Outage& outage : outages) {
        if (outage.begin < call.end) all_back = std::max(all_back, outage.end);
      }
      EXPECT_LE(call.end - all_back, kLease + kSlack + kOfLoad)
          << call.verb << " of step " << call.step << ":" << call.message;
    }
  }

  FaultyCluster cluster_;
  std::mt19937_64 random_{static_cast<uint64_t>(seed)};
};

TEST_F(ClusterFaultTest, GroupsSurviveTheDeathOfAnyProcess) {
  int faults = 0;
  for (int i = 0; faults < num_faults && !HasFailure(); ++i) {
    const std::string name = absl::StrCat("group", i);
    ASSERT_NO_FATAL_FAILURE(CreateGroup(name));
    faults += RunGroup(name);
    ASSERT_OK(ClientOf(name)->DeleteNamespace(name));
  }
  std::cout << faults << " processes were killed\n";
}

}  // namespace
}  // namespace tensorkv::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    int* const number = absl::ConsumePrefix(&argument, "--faults=")
                            ? &tensorkv::testing::num_faults
                        : absl::ConsumePrefix(&argument, "--seed=")
                            ? &tensorkv::testing::seed
                            : nullptr;
    if (number == nullptr || !absl::SimpleAtoi(argument, number)) {
      std::cerr << "unknown argument: " << argv[i] << "\n";
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
