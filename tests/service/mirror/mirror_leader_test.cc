#include "service/mirror/mirror_leader.h"

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/answer.h"
#include "base/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_alarms.h"

namespace tensorkv {
namespace {

constexpr char kLedSpace[] = "n";

// Servers whose sums end when the test says so, and all other calls at once.
class SummingPeer final : public UniformMirrorPeer<SummingPeer> {
 public:
  template <typename Request>
  void Send(const Request&, absl::Duration, MirrorCallback<Request> done) {
    if constexpr (std::is_same_v<Request, v1::RunSumsRequest>) {
      runs_.push_back(std::move(done));
    } else {
      std::move(done)(PeerResponse<Request>());
    }
  }
  void EndRuns() {
    for (auto& done : std::exchange(runs_, {})) {
      std::move(done)(v1::RunSumsResponse());
    }
  }

 private:
  std::vector<MirrorCallback<v1::RunSumsRequest>> runs_;
};

class MirrorLeaderTest : public ::testing::Test {
 protected:
  // `from` announces rounds of keys, each of a letter; gets their states.
  std::shared_ptr<std::vector<v1::RoundOutcome::State>> Announce(
      uint32_t from, const std::string& keys) {
    auto request = group_->NewRequest<v1::AnnounceRoundsRequest>();
    request.mutable_from()->set_place(from);
    request.set_namespace_(kLedSpace);
    for (const char key : keys) {
      v1::AnnouncedRound& round = *request.add_rounds();
      round.set_key(std::string(1, key));
      round.set_version(3);
    }
    auto states = std::make_shared<std::vector<v1::RoundOutcome::State>>();
    leader_->Announce(request, [states](const auto& response) {
      for (const auto& each : response->outcomes()) {
        states->push_back(each.state());
      }
    });
    return states;
  }

  const MirrorTimes times_;
  FakeAlarms alarms_;
  Executor executor_;
  const std::shared_ptr<SummingPeer> peer_ = std::make_shared<SummingPeer>();
  const std::shared_ptr<MirrorGroup> group_ = std::make_shared<MirrorGroup>(
      MirrorGroup{.servers = {"s0", "s1"}, .peers = {peer_, peer_}});
  const std::shared_ptr<MirrorLeader> leader_ = std::make_shared<MirrorLeader>(
      MirrorLeader::Environment{.group = group_,
                                .times = times_,
                                .alarms = &alarms_,
                                .executor = &executor_});
};

// A server may announce a key that the leader has deleted, as it has not heard.
TEST_F(MirrorLeaderTest, KeepsNothingOfKeysThatNobodyAnnounces) {
  const auto first = Announce(0, "k");
  EXPECT_EQ(leader_->num_keys(), 1u);
  leader_->Remove(kLedSpace, "k", 2);
  EXPECT_EQ(leader_->num_keys(), 1u);
  alarms_.Advance(times_.patience);
  EXPECT_EQ(leader_->num_keys(), 0u);
  const auto second = Announce(0, "k");
  leader_->Remove(kLedSpace, "k", 3);

  EXPECT_EQ(leader_->num_keys(), 0u);
  EXPECT_THAT(*first, ::testing::ElementsAre(v1::RoundOutcome::WAITING));
  EXPECT_THAT(*second, ::testing::ElementsAre(v1::RoundOutcome::FAILED));
}

// There are three rounds: one has ended, one is being summed, one is missing.
TEST_F(MirrorLeaderTest, AnswersWhatHasEndedOnceNothingIsBeingSummed) {
  const auto pass_delay = [&] {
    alarms_.Advance(times_.partial_answer);
    Answer<bool> is_idle;
    executor_.Submit([&] { is_idle.Set(true); });
    is_idle.Wait();
  };
  const auto states = Announce(0, "abc");

  Announce(1, "a");
  Announce(1, "b");
  peer_->EndRuns();
  pass_delay();
  EXPECT_THAT(*states, ::testing::IsEmpty());
  peer_->EndRuns();
  pass_delay();

  EXPECT_THAT(*states, ::testing::ElementsAre(v1::RoundOutcome::SUMMED,
                                              v1::RoundOutcome::SUMMED,
                                              v1::RoundOutcome::WAITING));
}

}  // namespace
}  // namespace tensorkv
