// Groups that train on three servers while anything may fail at any moment: a
// server is killed and comes back from its last checkpoint, or is lost and its
// keys are restored by the others; a worker is killed and comes back under its
// name; a member of etcd is killed, or all of them; links carry nothing for a
// while, are slow, or break again and again; a server cannot reach etcd;
// servers leave and come under load. Nothing hangs, nothing that was
// acknowledged is lost for good, nothing is applied twice.
//
// 6 faults of all kinds by default; others with --test_arg=--faults=500, other
// draws with --test_arg=--seed=2, of fewer kinds with
// --test_arg=--kinds=kill,member,etcd,hold,slow,cut,part,resize,lose, and more
// of them in a group with --test_arg=--steps=10000 (500 to 16000).

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
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
#include "tests/integration/link_proxy.h"
#include "tests/integration/machine_probe.h"
#include "tests/integration/server_process.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

int num_faults = 6;
int seed = 1;
Step num_steps = 1000;

constexpr size_t kNumServers = 3;
// Of etcd; a fault draws one of each by the same number.
constexpr size_t kNumMembers = kNumServers;
constexpr uint32_t kNumWorkers = 3;
// Of a group's steps there are so many for each death of a worker.
constexpr Step kStepsPerDeath = 500;
// So that the sums of f64 are exact.
constexpr Step kMaxSteps = 16'000;
// What a server has lost, workers that have left do not bring back: servers die
// while the group has so many steps to make.
constexpr Step kStepsAfterFaults = 500;
constexpr absl::Duration kLease = absl::Seconds(2);
// So long after the lease, or after all processes are back, workers have joined
// again, and make the steps again that a server has lost since its last
// checkpoint. On a machine that does much else besides it takes as much longer
// as any work does.
constexpr absl::Duration kSlack = absl::Seconds(2);
// A call that waits longer ends, with reason, and is made again: so soon that
// it ends within the lease and the slack.
constexpr absl::Duration kCallTimeout = absl::Seconds(3);

// From a fault until what failed, or another in its place, takes calls again.
struct Outage {
  absl::Duration begin;
  absl::Duration end;
};

// No step was made.
struct Standstill {
  absl::Duration begin;
  absl::Duration end;
  absl::Duration length() const { return end - begin; }
};

enum class Fault {
  kKillServer,
  kKillMember,
  kKillEtcd,
  kHoldLink,
  kSlowLink,
  kCutLink,
  kPartFromEtcd,
  kResize,
  kLose
};
struct Kind {
  Fault fault;
  absl::string_view name;
  absl::string_view plural;
};
constexpr Kind kKinds[] = {
    {Fault::kKillServer, "kill", "servers killed"},
    {Fault::kKillMember, "member", "members of etcd killed"},
    {Fault::kKillEtcd, "etcd", "all of etcd killed"},
    {Fault::kHoldLink, "hold", "links held"},
    {Fault::kSlowLink, "slow", "links slow"},
    {Fault::kCutLink, "cut", "links cut"},
    {Fault::kPartFromEtcd, "part", "parted from etcd"},
    {Fault::kResize, "resize", "resizes"},
    {Fault::kLose, "lose", "servers lost"},
};

// Those that may be drawn.
std::vector<Kind> kinds(std::begin(kKinds), std::end(kKinds));

// False if there is no such kind.
bool SetKinds(absl::string_view names) {
  kinds.clear();
  for (const absl::string_view name : absl::StrSplit(names, ',')) {
    const auto found = std::ranges::find(kKinds, name, &Kind::name);
    if (found == std::end(kKinds)) return false;
    kinds.push_back(*found);
  }
  return true;
}

// False if groups cannot be of so many.
bool SetSteps(absl::string_view steps) {
  return absl::SimpleAtoi(steps, &num_steps) && num_steps >= kStepsPerDeath &&
         num_steps <= kMaxSteps;
}

class FaultyCluster {
 public:
  FaultyCluster() {
    std::filesystem::remove_all(directory_);
    for (auto& links : etcd_links_) {
      for (size_t i = 0; i < kNumMembers; ++i) {
        links[i].ForwardTo(PortOf(members_[i]->address()));
      }
    }
    for (size_t i = 0; i < kNumServers; ++i) servers_.push_back(Start(i));
    for (auto& server : servers_) server->AwaitServing();
  }
  ~FaultyCluster() {
    // For whoever looks for what a run has failed of.
    if (::testing::Test::HasFailure()) {
      for (auto& server : servers_) {
        server->Signal(SIGKILL);
        std::cout << server->ReadAll() << std::endl;
      }
    }
    servers_.clear();
    std::filesystem::remove_all(directory_);
  }

  std::string target() const {
    std::vector<std::string> addresses;
    for (const LinkProxy& link : links_) addresses.push_back(link.address());
    return absl::StrCat("cluster:", absl::StrJoin(addresses, ","));
  }

  // Something fails that `random` draws, and is mended again.
  Outage Disturb(std::mt19937_64& random) {
    Outage outage = {.begin = SteadyNow()};
    const Kind& kind = kinds[random() % kinds.size()];
    ++num_faults_[kind.fault];
    const size_t server = random() % kNumServers;
    std::cout << absl::Now() << ": " << kind.name << " " << Name(server)
              << std::endl;
    switch (kind.fault) {
      case Fault::kKillServer:
        Kill(server);
        Restart(server);
        break;
      case Fault::kKillMember:
        members_[server]->Stop();
        members_[server]->Start();
        break;
      case Fault::kKillEtcd:
        KillEtcd();
        break;
      case Fault::kResize:
        Resize({}, /*remove=*/{Name(server)}, {});
        Resize(/*add=*/{Name(server)}, {}, {});
        break;
      case Fault::kLose:
        Kill(server);
        Resize({}, {}, /*lost=*/{Name(server)});
        Restart(server);
        Resize(/*add=*/{Name(server)}, {}, {});
        break;
      case Fault::kHoldLink:
      case Fault::kSlowLink:
      case Fault::kCutLink:
      case Fault::kPartFromEtcd:
        DisturbLinks(kind.fault, server, random);
    }
    outage.end = SteadyNow();
    return outage;
  }

  std::string Counts() const {
    std::string text;
    for (const Kind& kind : kKinds) {
      const auto found = num_faults_.find(kind.fault);
      absl::StrAppend(&text, found == num_faults_.end() ? 0 : found->second,
                      " ", kind.plural, ", ");
    }
    return text;
  }

 private:
  static std::string Name(size_t i) { return absl::StrCat("s", i); }
  static int PortOf(absl::string_view address) {
    int port = 0;
    EXPECT_TRUE(
        absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    return port;
  }

  // Links fail for less than a lease, or more.
  void DisturbLinks(Fault fault, size_t server, std::mt19937_64& random) {
    const absl::Duration duration = absl::Milliseconds(100 + random() % 3000);
    FailLinks(fault, server, random());
    absl::SleepFor(duration);  // nothing tells that a fault has lasted enough
    RepairLinks(fault, server);
  }
  void FailLinks(Fault fault, size_t server, uint64_t seed) {
    LinkProxy& link = links_[server];
    if (fault == Fault::kHoldLink) {
      link.Hold();
    } else if (fault == Fault::kSlowLink) {
      link.SetDelay(absl::Milliseconds(20));
    } else if (fault == Fault::kCutLink) {
      link.CutConnections(/*mean_bytes=*/20'000, seed);
      link.CutAll();
    } else {
      for (LinkProxy& each : etcd_links_[server]) each.Hold();
    }
  }
  void RepairLinks(Fault fault, size_t server) {
    LinkProxy& link = links_[server];
    link.Release();
    link.SetDelay(absl::ZeroDuration());
    if (fault == Fault::kCutLink) {
      link.CutConnections(0, 0);
      link.CutAll();
    }
    for (LinkProxy& each : etcd_links_[server]) each.Release();
  }
  void KillEtcd() {
    for (auto& member : members_) member->Stop();
    for (auto& member : members_) member->Launch();
    for (auto& member : members_) member->AwaitAnswer();
  }

  std::unique_ptr<ServerProcess> Start(size_t i) {
    auto server = std::make_unique<ServerProcess>(std::vector<std::string>{
        "--listen=127.0.0.1:0", "--cluster_address=" + links_[i].address(),
        "--metrics_listen=", "--budget=64MiB", "--etcd=" + Etcd(i),
        "--server_name=" + Name(i),
        absl::StrCat("--cluster_size=", kNumServers), "--cluster_partitions=64",
        "--cluster_lease=2s", "--cluster_checkpoints=" + directory_,
        "--checkpoint_interval=1s", "--checkpoint_keep=2"});
    const std::string field = "the cluster listen=127.0.0.1:";
    const std::string line = server->AwaitLine(field);
    const size_t end = line.find(' ', line.find(field) + field.size());
    links_[i].ForwardTo(PortOf(absl::string_view(line).substr(0, end)));
    return server;
  }
  std::string Etcd(size_t server) const {
    std::vector<std::string> addresses;
    for (const LinkProxy& link : etcd_links_[server]) {
      addresses.push_back(link.address());
    }
    return absl::StrJoin(addresses, ",");
  }
  void Kill(size_t i) {
    servers_[i]->Signal(SIGKILL);
    servers_[i]->Wait();
  }
  void Restart(size_t i) {
    servers_[i] = Start(i);
    EXPECT_TRUE(servers_[i]->AwaitServing());
  }

  // Asks until all is where it is to be. A server that was killed counts as
  // live until its lease ends, and one that was started registers at any
  // moment.
  void Resize(const std::vector<std::string>& add,
              const std::vector<std::string>& remove,
              const std::vector<std::string>& lost) {
    ResizeClusterRequest request;
    request.mutable_add()->Add(add.begin(), add.end());
    request.mutable_remove()->Add(remove.begin(), remove.end());
    request.mutable_lost()->Add(lost.begin(), lost.end());
    const absl::Duration begin = SteadyNow();
    absl::StatusOr<ResizeClusterReply> reply = Ask(request);
    while (!reply.ok() || reply->partitions_to_move() > 0 ||
           reply->partitions_to_restore() > 0) {
      ASSERT_LT(SteadyNow() - begin, absl::Minutes(2)) << reply.status();
      absl::SleepFor(absl::Milliseconds(100));
      // Whoever is lost is in the cluster no more.
      const bool is_lost = reply.ok() || absl::IsNotFound(reply.status());
      reply = Ask(!lost.empty() && is_lost ? ResizeClusterRequest() : request);
    }
    // What has moved is in no checkpoint of the server that has it now.
    EXPECT_OK(Client::Connect({.target = target()})
                  .value()
                  ->SaveCheckpoint(absl::StrCat("resized-", ++num_resized_)));
  }
  // As somebody who has not seen what servers have lost.
  absl::StatusOr<ResizeClusterReply> Ask(const ResizeClusterRequest& request) {
    return Client::Connect({.target = target()})
        .value()
        ->ResizeCluster(request);
  }

  const std::string directory_ =
      absl::StrCat(::testing::TempDir(), "/cluster-faults");
  std::vector<std::unique_ptr<EtcdProcess>> members_ =
      EtcdProcess::StartMembers(kNumMembers);
  // From each server to the members of etcd.
  std::array<std::array<LinkProxy, kNumMembers>, kNumServers> etcd_links_;
  // Between each server and all others.
  std::array<LinkProxy, kNumServers> links_;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
  std::map<Fault, int> num_faults_;
  int num_resized_ = 0;
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

  // The step after which the first key has this value.
  Step StepOf(const Value& value) const {
    const auto sum = static_cast<int64_t>(value.tensor.elements<double>()[0]);
    return std::ranges::lower_bound(sums_[0], sum) - sums_[0].begin();
  }

  // Runs a group, disturbed until it has nearly ended or `max_faults` were
  // drawn; the number of faults.
  int RunGroup(const std::string& name, int max_faults) {
    FaultGroup group({.target = cluster_.target(),
                      .name_space = name,
                      .num_workers = kNumWorkers,
                      .lease = kLease,
                      .call_timeout = kCallTimeout,
                      .num_steps = num_steps,
                      .num_kills = static_cast<int>(num_steps / kStepsPerDeath),
                      .max_life = static_cast<int>(num_steps / 4),
                      .seed = random_()});
    std::atomic<bool> is_done = false;
    std::vector<Outage> outages;
    std::thread disturber([&] {
      AwaitStepsInCheckpoints(name);
      while (!is_done && std::ssize(outages) < max_faults) {
        // The moment is to be any.
        absl::SleepFor(absl::Microseconds(random_() % 100'000));
        // A client that has seen what a server has lost would not go on.
        const auto value = ClientOf(name)->Pull(kFaultKeys[0]);
        EXPECT_OK(value);
        if (!value.ok() || StepOf(*value) + kStepsAfterFaults > num_steps) {
          break;
        }
        outages.push_back(cluster_.Disturb(random_));
      }
    });
    group.Run();
    is_done = true;
    disturber.join();
    ExpectHistoryOfTheModel(name, group);
    const size_t num_outages = outages.size();
    ExpectCallsEnd(group);
    ExpectNobodyHangs(group, std::move(outages));
    num_deaths_ += group.deaths().size();
    return static_cast<int>(num_outages + group.deaths().size());
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
    const auto sum_after = [this](const std::string& key, Step step) {
      return sums_[key == kFaultKeys[0] ? 0 : 1][step];
    };
    EXPECT_THAT(RestoredRoundViolations(reads, num_steps, sum_after),
                ::testing::IsEmpty());
    for (int key = 0; key < kNumFaultKeys; ++key) {
      EXPECT_THAT(ClientOf(name)->Pull(kFaultKeys[key]),
                  IsOkAndHolds(HasTensor(IsFilledWith(sums_[key].back()))));
    }
  }

  // Whatever has failed, and whatever a call waits for.
  void ExpectCallsEnd(const FaultGroup& group) {
    for (const FaultCall& call : group.calls()) {
      if (call.verb == "read") continue;
      ++num_calls_;
      if (call.code == absl::StatusCode::kDeadlineExceeded) ++num_timeouts_;
      const Standstill length = {call.begin, call.end};
      longest_call_ = std::max(longest_call_, length.length());
      EXPECT_LE(length.length(), BoundOf(length))
          << call.verb << " of step " << call.step << ":" << call.message;
    }
  }

  // Soon after all is back a step is made. Calls of later steps may wait, or
  // be made again, while others make again what was lost, however many steps
  // that is: what counts is how long the group stands still.
  void ExpectNobodyHangs(const FaultGroup& group, std::vector<Outage> outages) {
    for (const FaultDeath& death : group.deaths()) {
      outages.push_back({death.when, death.when});
    }
    Standstill longest;
    for (const Standstill& still : Standstills(group, outages)) {
      if (still.length() > longest.length()) longest = still;
      EXPECT_LE(still.length(), BoundOf(still));
    }
    if (longest.length() > longest_.length()) longest_ = longest;
    if (longest.length() > BoundOf(longest)) Describe(longest, group, outages);
  }

  // What of the times between two steps, and before the first, was after all
  // outages that had begun.
  static std::vector<Standstill> Standstills(
      const FaultGroup& group, const std::vector<Outage>& outages) {
    // When the first call began, and when there was a step.
    std::vector<absl::Duration> times;
    absl::Duration begin = absl::InfiniteDuration();
    for (const FaultCall& call : group.calls()) {
      begin = std::min(begin, call.begin);
      if (call.verb == "read") times.push_back(call.end);
    }
    times.push_back(begin);
    std::ranges::sort(times);
    std::vector<Standstill> stills;
    for (size_t i = 1; i < times.size(); ++i) {
      Standstill still = {times[i - 1], times[i]};
      for (const Outage& outage : outages) {
        if (outage.begin < still.end) {
          still.begin = std::max(still.begin, outage.end);
        }
      }
      if (still.begin < still.end) stills.push_back(still);
    }
    return stills;
  }

  absl::Duration BoundOf(const Standstill& still) const {
    return kLease + kSlack * probe_.SlowdownBetween(still.begin, still.end);
  }

  // Writes down what failed and what was under way, in times since it began.
  static void Describe(const Standstill& still, const FaultGroup& group,
                       const std::vector<Outage>& outages) {
    for (const Outage& outage : outages) {
      std::cout << "outage: " << outage.begin - still.begin << " to "
                << outage.end - still.begin << "\n";
    }
    for (const FaultCall& call : group.calls()) {
      if (call.end < still.begin || call.begin > still.end) continue;
      std::cout << "worker " << call.slot << ", " << call.verb << " of step "
                << call.step << ": " << call.begin - still.begin << " to "
                << call.end - still.begin << ", " << call.code << " "
                << call.reason << call.message << "\n";
    }
  }

  FaultyCluster cluster_;
  // Of each key, after each step.
  const std::array<std::vector<int64_t>, kNumFaultKeys> sums_ = {
      SumsUpTo(kNumWorkers, 0, num_steps), SumsUpTo(kNumWorkers, 1, num_steps)};
  const MachineProbe probe_;
  Standstill longest_;
  absl::Duration longest_call_;
  size_t num_calls_ = 0;
  size_t num_timeouts_ = 0;
  size_t num_deaths_ = 0;
  std::mt19937_64 random_{static_cast<uint64_t>(seed)};
};

TEST_F(ClusterFaultTest, GroupsSurviveWhateverFails) {
  int num = 0;
  for (int i = 0; num < num_faults && !HasFailure(); ++i) {
    const std::string name = absl::StrCat("group", i);
    ASSERT_NO_FATAL_FAILURE(CreateGroup(name));
    const int num_more = RunGroup(name, num_faults - num);
    ASSERT_GT(num_more, 0) << "no fault in " << name;
    num += num_more;
    ASSERT_OK(ClientOf(name)->DeleteNamespace(name));
  }
  std::cout << cluster_.Counts() << num_deaths_ << " workers killed, " << num
            << " in all; of " << num_calls_ << " calls, the longest of "
            << longest_call_ << ", " << num_timeouts_
            << " ended by their timeout; with all mended, no step took longer "
            << "than " << longest_.length() << ", where work took "
            << probe_.SlowdownBetween(longest_.begin, longest_.end)
            << " times as long as alone\n";
}

}  // namespace
}  // namespace tensorkv::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (absl::ConsumePrefix(&argument, "--kinds=") &&
        tensorkv::testing::SetKinds(argument)) {
      continue;
    }
    if (absl::ConsumePrefix(&argument, "--steps=") &&
        tensorkv::testing::SetSteps(argument)) {
      continue;
    }
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
