#include "service/server/device_choice.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;
using Kind = DeviceChoice::Kind;

std::pair<Kind, int> Parsed(absl::string_view text) {
  const DeviceChoice choice = ParseDeviceChoice(text).value();
  return {choice.kind, choice.ordinal};
}

TEST(DeviceChoiceTest, EveryDeviceIsRead) {
  EXPECT_EQ(Parsed("auto"), std::pair(Kind::kAuto, 0));
  EXPECT_EQ(Parsed("cpu"), std::pair(Kind::kCpu, 0));
  EXPECT_EQ(Parsed("cuda"), std::pair(Kind::kCuda, 0));
  EXPECT_EQ(Parsed("cuda:0"), std::pair(Kind::kCuda, 0));
  EXPECT_EQ(Parsed("cuda:7"), std::pair(Kind::kCuda, 7));
}

TEST(DeviceChoiceTest, AllElseIsInvalid) {
  for (const char* text : {"", "gpu", "CPU", "cpu:0", "cuda:", "cuda:x",
                           "cuda:-1", "cuda:0,", "cuda:0,x", "cuda0"}) {
    EXPECT_THAT(ParseDeviceChoice(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("expected auto, cpu, cuda")))
        << text;
  }
}

TEST(DeviceChoiceTest, SeveralGpusAreRefusedWithTheReason) {
  EXPECT_THAT(
      ParseDeviceChoice("cuda:0,1"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("on one GPU")));
}

}  // namespace
}  // namespace tensorkv
