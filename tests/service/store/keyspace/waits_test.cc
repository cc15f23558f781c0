#include "service/store/keyspace/waits.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

class Call final : public WaitingCall {
 public:
  explicit Call(absl::string_view at) : WaitingCall({}, absl::Seconds(1)) {
    topic = std::string(at);
  }
  bool CanEnd() override { return false; }
  absl::Status Missing() const override { return absl::OkStatus(); }
  void Fail(const absl::Status&) override {}
  void Send() override {}
};

std::shared_ptr<Call> Parked(Waits& waits, absl::string_view topic,
                             WaitReason reason = WaitReason::kKey) {
  auto call = std::make_shared<Call>(topic);
  call->reason = reason;
  waits.Park(call);
  return call;
}

TEST(WaitsTest, RemovesCallsWhereverTheyAre) {
  Waits waits;
  const auto one = Parked(waits, "a");
  const auto two = Parked(waits, "a");
  const auto three = Parked(waits, "a");

  waits.Remove(one);
  waits.Remove(one);
  waits.Remove(three);

  EXPECT_EQ(waits.num_parked(), 1u);
  EXPECT_THAT(waits.Take("a"), ::testing::ElementsAre(two));
}

TEST(WaitsTest, CountsByReason) {
  Waits waits;
  const auto round = Parked(waits, "a", WaitReason::kRound);
  Parked(waits, "a", WaitReason::kVersion);
  const auto status = [&](WaitReason reason) {
    return waits.statuses()[static_cast<size_t>(reason)];
  };
  EXPECT_EQ(status(WaitReason::kRound).calls_waiting, 1u);

  waits.Take("a");
  waits.CountEnd(*round, absl::Seconds(5));

  EXPECT_EQ(status(WaitReason::kRound).calls_waiting, 0u);
  EXPECT_EQ(status(WaitReason::kRound).calls_ended, 1u);
  EXPECT_EQ(status(WaitReason::kRound).waited, absl::Seconds(4));
  EXPECT_EQ(status(WaitReason::kVersion).calls_waiting, 0u);
  EXPECT_EQ(status(WaitReason::kVersion).calls_ended, 0u);
  EXPECT_EQ(status(WaitReason::kVersion).reason, WaitReason::kVersion);
}

}  // namespace
}  // namespace tensorkv
