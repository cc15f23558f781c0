#include "bench/gpu/options.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv::bench::gpu {
namespace {

using ::testing::HasSubstr;

Options Parse(const std::vector<std::string>& arguments) {
  const auto parsed = ParseOptions(arguments);
  if (const auto* exit = std::get_if<EarlyExit>(&parsed)) {
    ADD_FAILURE() << exit->text;
    return {};
  }
  return std::get<Options>(parsed);
}

EarlyExit Refuse(const std::vector<std::string>& arguments) {
  const auto parsed = ParseOptions(arguments);
  if (const auto* exit = std::get_if<EarlyExit>(&parsed)) return *exit;
  ADD_FAILURE() << "expected no run";
  return {};
}

TEST(OptionsTest, WithoutFlagsEverythingIsMeasuredOnTheFirstGpu) {
  const Options options = Parse({});

  EXPECT_FALSE(options.plan.is_quick);
  EXPECT_EQ(options.plan.only, "");
  EXPECT_EQ(options.plan.measure.repetitions, 5);
  EXPECT_EQ(options.gpu, 0);
  EXPECT_EQ(options.json_file, "");
}

TEST(OptionsTest, FlagsTakeTheirValues) {
  const Options options =
      Parse({"--quick", "--only=staging/", "--repetitions", "9", "--gpu=3",
             "--json", "a.json", "--server=s"});

  EXPECT_TRUE(options.plan.is_quick);
  EXPECT_EQ(options.plan.only, "staging/");
  EXPECT_EQ(options.plan.measure.repetitions, 9);
  EXPECT_LT(options.plan.measure.trial_time, MeasureOptions().trial_time);
  EXPECT_EQ(options.gpu, 3);
  EXPECT_EQ(options.json_file, "a.json");
  EXPECT_EQ(options.tensorkv_server, "s");
}

TEST(OptionsTest, WrongFlagsAreRefused) {
  for (const char* flag :
       {"--what", "--repetitions=4", "--gpu=-1", "--gpu=first"}) {
    const EarlyExit exit = Refuse({flag});
    EXPECT_EQ(exit.code, 2) << flag;
    EXPECT_THAT(exit.text, HasSubstr("gpu_benchmark: ")) << flag;
  }
}

TEST(OptionsTest, HelpNamesTheFlags) {
  const EarlyExit exit = Refuse({"--help"});

  EXPECT_EQ(exit.code, 0);
  EXPECT_THAT(exit.text, HasSubstr("--json"));
}

}  // namespace
}  // namespace tensorkv::bench::gpu
