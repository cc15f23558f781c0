#include "service/server/device_choice.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::StatusIs;
using Kind = DeviceChoice::Kind;

std::pair<Kind, int> Parsed(absl::string_view text) {
  const DeviceChoice choice = ParseDeviceChoice(text).value();
  return {choice.kind, choice.ordinal};
}

TEST(DeviceChoiceTest, EveryDeviceIsRead) {
  EXPECT_THAT(Parsed("auto"), Pair(Kind::kAuto, 0));
  EXPECT_THAT(Parsed("cpu"), Pair(Kind::kCpu, _));
  EXPECT_THAT(Parsed("cuda"), Pair(Kind::kCuda, 0));
  EXPECT_THAT(Parsed("cuda:0"), Pair(Kind::kCuda, 0));
  EXPECT_THAT(Parsed("cuda:7"), Pair(Kind::kCuda, 7));
}

TEST(DeviceChoiceTest, AllElseIsInvalid) {
  for (const char* text : {"", "gpu", "CPU", "cpu:0", "cpu,cpu",
                           "cuda:", "cuda:x", "cuda:-1", "cuda0"}) {
    EXPECT_THAT(ParseDeviceChoice(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("expected auto, cpu, cuda")))
        << text;
  }
}

TEST(DeviceChoiceTest, SeveralGpusAreAServerEach) {
  for (const char* text : {"cuda:0,1", "cuda:0,", "cuda:0,0"}) {
    EXPECT_THAT(ParseDeviceChoice(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("run one server for each GPU")))
        << text;
  }
}

}  // namespace
}  // namespace tensorkv
