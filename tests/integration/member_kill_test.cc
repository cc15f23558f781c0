// Members that are killed at any moment and come back, in every mode in which
// the others go on without them: what was acknowledged is in the value, once,
// and besides it at most what was under way when its worker died.

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/fault_model.h"
#include "tests/integration/server_process.h"
#include "tests/integration/spawn.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

constexpr char kBinary[] = "tests/integration/fault_member";
constexpr int kNumMembers = 3;
constexpr int kNumKills = 10;
constexpr int kLeaseMs = 300;

// What a member has written, over all its lives.
struct Pushes {
  int64_t acknowledged = 0;
  int64_t under_way = 0;
};

class Member {
 public:
  Member(const std::string& target, const std::string& name_space, int element)
      : log_(absl::StrCat(::testing::TempDir(), "/", name_space, element)),
        arguments_({kBinary, target, name_space, absl::StrCat("w", element),
                    absl::StrCat(element), absl::StrCat(kLeaseMs)}) {
    std::remove(log_.c_str());
  }

  void Start() { pid_ = Spawn(arguments_, log_); }

  // Signals the process and waits for its end; its status.
  int End(int signal) {
    if (pid_ <= 0) return -1;
    if (signal == SIGKILL) ++num_kills_;
    kill(pid_, signal);
    int status = -1;
    waitpid(pid_, &status, 0);
    return status;
  }

  int num_kills() const { return num_kills_; }

  Pushes Count() const {
    std::ifstream file(log_);
    const std::string log((std::istreambuf_iterator<char>(file)), {});
    const auto count = [&](char mark) {
      return std::count(log.begin(), log.end(), mark);
    };
    return {count('.'), count('b') - count('.') - count('x')};
  }

  // False if it does not come to that many within a minute.
  bool AwaitAcknowledgements(int64_t number) const {
    const absl::Time end = absl::Now() + absl::Minutes(1);
    while (Count().acknowledged < number) {
      if (absl::Now() > end) return false;
      absl::SleepFor(absl::Milliseconds(2));
    }
    return true;
  }

 private:
  const std::string log_;
  const std::vector<std::string> arguments_;
  pid_t pid_ = -1;
  int num_kills_ = 0;
};

struct Group {
  std::string name;
  NamespaceConfig config;
};

NamespaceConfig Config(NamespaceConfig config) {
  config.rule.name = "accumulate";
  config.on_worker_loss = OnWorkerLoss::kContinue;
  return config;
}

class MemberKillTest : public ::testing::TestWithParam<Group> {
 protected:
  MemberKillTest()
      : server_(
            {"--listen=127.0.0.1:0", "--metrics_listen=", "--budget=64MiB"}),
        target_(server_.AwaitAddress()),
        client_(
            Client::Connect({.target = target_, .name_space = GetParam().name})
                .value()) {
    for (int i = 0; i < kNumMembers; ++i) {
      members_.emplace_back(target_, GetParam().name, i);
    }
  }

  void StartAll() {
    for (Member& member : members_) member.Start();
    for (const Member& member : members_) {
      ASSERT_TRUE(member.AwaitAcknowledgements(1));
    }
  }

  void KillAndStartAgain() {
    absl::SleepFor(absl::Microseconds(
        std::uniform_int_distribution<int>(0, 20'000)(random_)));
    Member& member = members_[std::uniform_int_distribution<int>(
        0, kNumMembers - 1)(random_)];
    member.End(SIGKILL);
    const int64_t acknowledged = member.Count().acknowledged;
    member.Start();
    ASSERT_TRUE(member.AwaitAcknowledgements(acknowledged + 1));
  }

  ServerProcess server_;
  const std::string target_;
  const std::unique_ptr<Client> client_;
  std::vector<Member> members_;
  std::mt19937_64 random_{/*seed=*/5};
};

TEST_P(MemberKillTest, NothingAcknowledgedIsLostOrAppliedTwice) {
  ASSERT_OK(client_->CreateNamespace(GetParam().name, GetParam().config));
  ASSERT_OK(
      client_->Init(kFaultKeys[0], Full({kNumFaultElements}, 0, DType::kF64)));
  StartAll();

  for (int i = 0; i < kNumKills && !HasFailure(); ++i) KillAndStartAgain();

  for (Member& member : members_) EXPECT_EQ(member.End(SIGTERM), 0);
  ASSERT_OK_AND_ASSIGN(const Value value, client_->Pull(kFaultKeys[0]));
  for (int i = 0; i < kNumMembers; ++i) {
    const Pushes pushes = members_[i].Count();
    const auto sum = static_cast<int64_t>(value.tensor.elements<double>()[i]);
    EXPECT_LE(pushes.under_way, members_[i].num_kills()) << "member " << i;
    EXPECT_GE(sum, pushes.acknowledged) << "member " << i;
    EXPECT_LE(sum, pushes.acknowledged + pushes.under_way) << "member " << i;
    std::cout << "member " << i << ": " << pushes.acknowledged
              << " acknowledged, " << pushes.under_way
              << " under way when it was killed, " << sum << " applied\n";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Modes, MemberKillTest,
    ::testing::Values(
        Group{"continue", Config({.mode = Mode::kSync, .num_workers = 3})},
        Group{
            "elastic",
            Config({.mode = Mode::kSync, .num_workers = 1, .max_workers = 4})},
        Group{"quorum", Config({.mode = Mode::kSync,
                                .num_workers = 3,
                                .quorum = 2,
                                .quorum_grace = absl::Milliseconds(5)})},
        Group{"bounded", Config({.mode = Mode::kBounded,
                                 .num_workers = 3,
                                 .staleness = 2})}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tensorkv::testing
