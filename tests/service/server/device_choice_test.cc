#include "service/server/device_choice.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::StatusIs;
using Kind = DeviceChoice::Kind;

std::pair<Kind, std::vector<int>> Parsed(absl::string_view text) {
  const DeviceChoice choice = ParseDeviceChoice(text).value();
  return {choice.kind, choice.ordinals};
}

TEST(DeviceChoiceTest, EveryDeviceIsRead) {
  EXPECT_THAT(Parsed("auto"), Pair(Kind::kAuto, ElementsAre(0)));
  EXPECT_THAT(Parsed("cpu"), Pair(Kind::kCpu, _));
  EXPECT_THAT(Parsed("cuda"), Pair(Kind::kCuda, ElementsAre(0)));
  EXPECT_THAT(Parsed("cuda:0"), Pair(Kind::kCuda, ElementsAre(0)));
  EXPECT_THAT(Parsed("cuda:7"), Pair(Kind::kCuda, ElementsAre(7)));
  EXPECT_THAT(Parsed("cuda:2,0"), Pair(Kind::kCuda, ElementsAre(2, 0)));
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

TEST(DeviceChoiceTest, GpuThatIsNamedTwiceIsInvalid) {
  EXPECT_THAT(ParseDeviceChoice("cuda:0,1,0"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected every GPU once, got 0 twice")));
}

TEST(DeviceChoiceTest, MoreGpusThanAStoreTakesAreInvalid) {
  std::string text = "cuda:0";
  for (int ordinal = 1; ordinal < 65; ++ordinal) {
    absl::StrAppend(&text, ",", ordinal);
  }
  EXPECT_THAT(ParseDeviceChoice(text),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "expected at most 64 GPUs, got 65"));
}

}  // namespace
}  // namespace tensorkv
