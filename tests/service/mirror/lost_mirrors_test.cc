// Servers of which one is lost while messages about a sum are: those that are
// left agree, whichever it is.

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/contracts/caller.h"
#include "tests/service/mirror/mirror_network.h"
#include "tests/service/mirror/mirrored_servers.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::Caller;
using testing::Fate;
using testing::Full;

// Which message to, or from, a server is lost in the first round.
enum class Lost { kNone, kOutcome, kRun, kReplyToRun };
constexpr int kLosses = 4;

Fate FateOf(Lost lost, bool is_announce, bool is_run) {
  if (is_announce && lost == Lost::kOutcome) return Fate::kReplyIsLost;
  if (is_run && lost == Lost::kRun) return Fate::kIsLost;
  if (is_run && lost == Lost::kReplyToRun) return Fate::kReplyIsLost;
  return Fate::kArrives;
}

// By the server that is lost: all ways in which messages are lost before.
class LostMirrorsTest : public testing::MirroredServersTest,
                        public ::testing::WithParamInterface<uint32_t> {
 protected:
  static constexpr absl::Duration kPatience = absl::Milliseconds(20);

  void LoseMessages(const std::vector<Lost>& lost) {
    network_->SetFates([lost](uint32_t from, uint32_t to, const auto& request) {
      // What a server says to itself is not lost.
      if (from == to) return Fate::kArrives;
      const bool is_announce = testing::As<v1::AnnounceRoundsRequest>(request);
      const bool is_run = testing::As<v1::RunSumsRequest>(request);
      return FateOf(lost[is_announce ? from : to], is_announce, is_run);
    });
  }

  // Waits for the step of all workers, and pushes it again where it has failed;
  // what is closed there already is another server's by now.
  absl::Status Make(uint32_t rank, Step step) {
    for (;;) {
      const absl::Status pushed =
          Worker(rank).Push("small", Full({7}, 1), step).status();
      if (ReasonOf(pushed) == Reason::kStepClosed) return absl::OkStatus();
      if (!pushed.ok()) return pushed;
      const absl::Status pulled = Worker(rank).Pull("small").status();
      if (ReasonOf(pulled) != Reason::kRoundFailed) return pulled;
    }
  }

  void MakeByAll(Step step) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      threads.emplace_back([=, this] { EXPECT_OK(Make(rank, step)); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void Run(const std::vector<Lost>& lost, uint32_t lost_server) {
    Start({.patience = kPatience, .attempt = 5 * kPatience});
    LoseMessages(lost);
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      ASSERT_OK(Worker(rank).Push("small", Full({7}, 1), 1));
    }
    // Whether the round has closed or failed there, it has ended.
    for (uint32_t rank = 0; rank < kServers; ++rank) {
      Worker(rank).Pull("small").status().IgnoreError();
    }
    std::vector<uint32_t> left;
    for (uint32_t i = 0; i < kServers; ++i) {
      if (i != lost_server) left.push_back(i);
    }
    network_->SetFates(nullptr);
    network_->ConnectOnly(left);
    ChooseOf(left);

    for (Step step = 1; step <= 3; ++step) MakeByAll(step);

    for (const uint32_t server : left) {
      const absl::StatusOr<Value> value = At(server).Pull("small");
      ASSERT_OK(value);
      EXPECT_EQ(value->version, 4u) << server;
      EXPECT_THAT(value->tensor, testing::IsFilledWith(1 + 3 * kWorkers))
          << server;
    }
    Reset();
  }

  void Reset() {
    Close();
    ASSERT_OK(One().Drop());
    joined_.clear();
    workers_.clear();
  }
};

TEST_P(LostMirrorsTest, ThoseThatAreLeftAgreeWhateverWasLost) {
  for (int combination = 0; combination < kLosses * kLosses * kLosses;
       ++combination) {
    std::vector<Lost> lost;
    std::string text;
    for (int rest = combination, i = 0; i < 3; ++i, rest /= kLosses) {
      lost.push_back(static_cast<Lost>(rest % kLosses));
      absl::StrAppend(&text, " ", rest % kLosses);
    }
    SCOPED_TRACE(absl::StrCat("messages of the servers:", text));
    Run(lost, GetParam());
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Server, LostMirrorsTest, ::testing::Values(0, 1, 2));

}  // namespace
}  // namespace tensorkv
