#include "service/mirror/mirror_leader.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/answer.h"
#include "base/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_alarms.h"

namespace tensorkv {
namespace {

constexpr char kLedSpace[] = "n";

// Servers that answer all calls at once.
class ReadyPeer final : public MirrorPeer {
 public:
  void Call(MirrorRequest, absl::Duration, MirrorCallback done) override {
    std::move(done)(MirrorResponse());
  }
};

// A server may announce a key that the leader has deleted, as it has not heard.
TEST(MirrorLeaderTest, KeepsNothingOfKeysThatNobodyAnnounces) {
  FakeAlarms alarms;
  const auto peer = std::make_shared<ReadyPeer>();
  auto group = std::make_shared<MirrorGroup>(
      MirrorGroup{.servers = {"s0", "s1"}, .peers = {peer, peer}});
  const MirrorTimes times;
  Executor executor;
  const auto leader = std::make_shared<MirrorLeader>(
      MirrorLeader::Environment{.group = group,
                                .times = times,
                                .alarms = &alarms,
                                .executor = &executor});
  MirrorRequest request = group->NewRequest();
  request.mutable_announce()->set_name_space(kLedSpace);
  mirror::v1::Round& round = *request.mutable_announce()->add_rounds();
  round.set_key("k");
  round.set_version(3);
  std::vector<mirror::v1::Outcome::State> states;
  const auto announce = [&] {
    leader->Announce(request, [&](absl::StatusOr<MirrorResponse> response) {
      states.push_back(response->outcomes(0).state());
    });
  };

  announce();
  EXPECT_EQ(leader->num_keys(), 1u);
  leader->Remove(kLedSpace, "k", 2);
  EXPECT_EQ(leader->num_keys(), 1u);
  alarms.Advance(times.patience);
  EXPECT_EQ(leader->num_keys(), 0u);
  announce();
  leader->Remove(kLedSpace, "k", 3);

  EXPECT_EQ(leader->num_keys(), 0u);
  EXPECT_THAT(states, ::testing::ElementsAre(mirror::v1::Outcome::WAITING,
                                             mirror::v1::Outcome::FAILED));
}

// Servers whose sums end when the test says so.
class SummingPeer final : public MirrorPeer {
 public:
  void Call(MirrorRequest request, absl::Duration,
            MirrorCallback done) override {
    if (!request.has_run()) return std::move(done)(MirrorResponse());
    runs_.push_back(std::move(done));
  }
  void EndRuns() {
    for (MirrorCallback& done : std::exchange(runs_, {})) {
      std::move(done)(MirrorResponse());
    }
  }

 private:
  std::vector<MirrorCallback> runs_;
};

// There are three rounds: one has ended, one is being summed, one is missing.
TEST(MirrorLeaderTest, AnswersWhatHasEndedOnceNothingIsBeingSummed) {
  FakeAlarms alarms;
  Executor executor;
  const auto peer = std::make_shared<SummingPeer>();
  auto group = std::make_shared<MirrorGroup>(
      MirrorGroup{.servers = {"s0", "s1"}, .peers = {peer, peer}});
  const MirrorTimes times;
  const auto leader = std::make_shared<MirrorLeader>(
      MirrorLeader::Environment{.group = group,
                                .times = times,
                                .alarms = &alarms,
                                .executor = &executor});
  const auto announce = [&](uint32_t from, const std::string& keys,
                            MirrorCallback done) {
    MirrorRequest request = group->NewRequest();
    request.set_from(from);
    request.mutable_announce()->set_name_space(kLedSpace);
    for (const char key : keys) {
      mirror::v1::Round& round = *request.mutable_announce()->add_rounds();
      round.set_key(std::string(1, key));
      round.set_version(3);
    }
    leader->Announce(request, std::move(done));
  };
  const auto pass_delay = [&] {
    alarms.Advance(times.partial_answer);
    Answer<bool> is_idle;
    executor.Submit([&] { is_idle.Set(true); });
    is_idle.Wait();
  };
  std::vector<mirror::v1::Outcome::State> states;
  announce(0, "abc", [&](absl::StatusOr<MirrorResponse> response) {
    for (const auto& each : response->outcomes()) {
      states.push_back(each.state());
    }
  });

  announce(1, "a", [](const auto&) {});
  announce(1, "b", [](const auto&) {});
  peer->EndRuns();
  pass_delay();
  EXPECT_THAT(states, ::testing::IsEmpty());
  peer->EndRuns();
  pass_delay();

  EXPECT_THAT(states, ::testing::ElementsAre(mirror::v1::Outcome::SUMMED,
                                             mirror::v1::Outcome::SUMMED,
                                             mirror::v1::Outcome::WAITING));
}

}  // namespace
}  // namespace tensorkv
