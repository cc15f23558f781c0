#include "service/mirror/delivered_ranges.h"

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/mirror/mirror_session.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

constexpr uint64_t kAttempt = 7;

// Keeps what it is called with, for the test to answer.
class KeptPeer final : public UniformMirrorPeer<KeptPeer> {
 public:
  template <typename Request>
  void Send(Request request, absl::Duration, MirrorCallback<Request> done) {
    if constexpr (std::is_same_v<Request, v1::DeliverRangesRequest>) {
      requests.push_back(std::move(request));
      callbacks.push_back(std::move(done));
    } else {
      std::move(done)(absl::UnimplementedError("only ranges are delivered"));
    }
  }

  std::vector<v1::DeliverRangesRequest> requests;
  std::vector<MirrorCallback<v1::DeliverRangesRequest>> callbacks;
};

class DeliveredRangesTest : public ::testing::Test {
 protected:
  DeliveredRangesTest() {
    auto group = std::make_shared<MirrorGroup>();
    group->servers = {"s0", "s1"};
    group->peers = {nullptr, peer_};
    ranges_ = std::make_shared<DeliveredRanges>(group, &alarms_);
    ranges_->Expect(
        kAttempt, 0,
        {{}, {absl::MakeSpan(memory_, 4), absl::MakeSpan(memory_ + 4, 2)}});
    ranges_->Expect(kAttempt, 1, {{}, {}});
  }
  // They keep the ranges, which keep the peer.
  ~DeliveredRangesTest() override { peer_->callbacks.clear(); }

  void Move(std::vector<absl::Span<const char>> sends) {
    ranges_->Move(kAttempt, 0, {{}, std::move(sends)}, absl::Seconds(1),
                  [this](absl::Status status) { ended_ = status; });
  }
  absl::Status Take(uint32_t piece, uint64_t offset, const std::string& data,
                    uint64_t attempt = kAttempt, uint32_t from = 1,
                    uint32_t phase = 0) {
    v1::DeliverRangesRequest message;
    message.mutable_from()->set_place(from);
    message.set_attempt(attempt);
    message.set_phase(phase);
    v1::RangePart& part = *message.add_parts();
    part.set_piece(piece);
    part.set_offset(offset);
    part.set_data(data);
    return ranges_->Receive(message);
  }

  char memory_[6] = {};
  FakeAlarms alarms_;
  const std::shared_ptr<KeptPeer> peer_ = std::make_shared<KeptPeer>();
  std::shared_ptr<DeliveredRanges> ranges_;
  std::optional<absl::Status> ended_;
};

TEST_F(DeliveredRangesTest, PhaseEndsWhenAllHasComeAndGone) {
  Move({"ab", "cde"});
  ASSERT_EQ(peer_->requests.size(), 1u);
  EXPECT_EQ(peer_->requests[0].parts_size(), 2);

  ASSERT_OK(Take(0, 0, "wxy"));
  ASSERT_OK(Take(0, 3, "z"));
  ASSERT_OK(Take(1, 0, "uv"));
  EXPECT_FALSE(ended_);
  std::move(peer_->callbacks[0])(v1::DeliverRangesResponse());

  ASSERT_TRUE(ended_);
  EXPECT_OK(*ended_);
  EXPECT_EQ(std::string(memory_, 6), "wxyzuv");
}

TEST_F(DeliveredRangesTest, RefusesWhatIsNotExpected) {
  const auto is_invalid = StatusIs(absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Take(0, 1, "a"), is_invalid);
  EXPECT_THAT(Take(1, 0, "a"), is_invalid);
  EXPECT_THAT(Take(0, 0, "abcde"), is_invalid);
  EXPECT_THAT(Take(0, 0, "a", kAttempt, /*from=*/2), is_invalid);
  EXPECT_THAT(Take(0, 0, "a", kAttempt, /*from=*/0), is_invalid);
  EXPECT_THAT(Take(0, 0, "a", kAttempt, 1, /*phase=*/2), is_invalid);
  EXPECT_THAT(Take(0, 0, "a", kAttempt, 1, /*phase=*/1), is_invalid);
  EXPECT_THAT(Take(0, 0, "a", kAttempt + 1),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(memory_[0], 0);
}

TEST_F(DeliveredRangesTest, TimeoutNamesWhoHasBroughtNothing) {
  Move({});

  alarms_.Advance(absl::Seconds(1));

  ASSERT_TRUE(ended_);
  EXPECT_THAT(*ended_, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                HasSubstr("server s1")));
}

TEST_F(DeliveredRangesTest, ForgottenAttemptTouchesNoMemory) {
  Move({"ab"});

  ranges_->EndAttempt(kAttempt);

  ASSERT_TRUE(ended_);
  EXPECT_TRUE(absl::IsCancelled(*ended_));
  EXPECT_THAT(Take(0, 0, "a"), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(memory_[0], 0);
}

TEST_F(DeliveredRangesTest, ServerThatIsGoneEndsThePhase) {
  Move({"ab"});

  std::move(peer_->callbacks[0])(absl::UnavailableError("server s1: gone"));

  ASSERT_TRUE(ended_);
  EXPECT_THAT(*ended_, StatusIs(absl::StatusCode::kUnavailable));
}

// What a session answers to a call that no server of its group makes.
template <typename Request>
absl::Status AnswerTo(const Request& request) {
  SteadyAlarms alarms;
  MirrorSession session({.servers = {"s0", "s1"}, .peers = {nullptr, nullptr}},
                        {.alarms = &alarms});
  absl::Status answer;
  session.Handle(request,
                 [&](const auto& response) { answer = response.status(); });
  return answer;
}

TEST(MirrorSessionTest, RefusesCallsThatMakeNoSense) {
  const MirrorGroup group = {.servers = {"s0", "s1"}};
  auto of_others = group.NewRequest<v1::PingRequest>();
  of_others.mutable_from()->set_group(1);
  auto from_nobody = group.NewRequest<v1::PingRequest>();
  from_nobody.mutable_from()->set_place(2);
  auto run = group.NewRequest<v1::RunSumsRequest>();
  run.set_attempt(9);
  const auto is_refused = StatusIs(absl::StatusCode::kFailedPrecondition);

  EXPECT_THAT(AnswerTo(of_others), is_refused);
  EXPECT_THAT(AnswerTo(from_nobody), is_refused);
  EXPECT_THAT(AnswerTo(v1::PingRequest()), is_refused);
  EXPECT_THAT(AnswerTo(run), is_refused);
}

}  // namespace
}  // namespace tensorkv
