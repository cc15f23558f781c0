#include "service/rpc/striped_calls.h"

#include <memory>

#include "gtest/gtest.h"
#include "tests/testing/fake_alarms.h"

namespace tensorkv {
namespace {

class StripedCallsTest : public ::testing::Test {
 protected:
  const Caller caller_;
  FakeAlarms alarms_;
  StripedCalls calls_{absl::Seconds(30), &alarms_};
};

TEST_F(StripedCallsTest, StripesOfOneGroupShareACall) {
  const auto first = calls_.FindOrAdd(Method::kPushStream, caller_, {0, 2, 1});

  EXPECT_EQ(calls_.FindOrAdd(Method::kPushStream, caller_, {1, 2, 1}), first);
  EXPECT_EQ(calls_.size(), 1u);
}

TEST_F(StripedCallsTest, OtherGroupsAndMethodsHaveOtherCalls) {
  const auto call = calls_.FindOrAdd(Method::kPushStream, caller_, {0, 2, 1});

  EXPECT_NE(calls_.FindOrAdd(Method::kPullStream, caller_, {0, 2, 1}), call);
  EXPECT_NE(calls_.FindOrAdd(Method::kPushStream, caller_, {0, 2, 2}), call);
  EXPECT_NE(calls_.FindOrAdd(Method::kPushStream, {"mallory"}, {0, 2, 1}),
            call);
}

TEST_F(StripedCallsTest, ForgetsACallThatNoStripeHas) {
  calls_.FindOrAdd(Method::kPushStream, caller_, {0, 2, 1}).reset();

  EXPECT_EQ(calls_.size(), 0u);
}

// A thread that has answered a call may keep it until the server has ended.
TEST_F(StripedCallsTest, MayGoBeforeItsCalls) {
  auto calls = std::make_unique<StripedCalls>(absl::Seconds(30), &alarms_);
  auto call = calls->FindOrAdd(Method::kPushStream, caller_, {0, 2, 1});

  calls.reset();
  call.reset();

  EXPECT_EQ(call, nullptr);
}

TEST_F(StripedCallsTest, CallsOfOneStreamAreTheirOwn) {
  EXPECT_NE(calls_.New(), calls_.New());
  EXPECT_EQ(calls_.size(), 0u);
}

}  // namespace
}  // namespace tensorkv
