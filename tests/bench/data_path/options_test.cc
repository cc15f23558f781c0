#include "bench/data_path/options.h"

#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv::bench {
namespace {

using ::testing::ElementsAre;
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

TEST(OptionsTest, WithoutFlagsEverythingIsMeasuredOnTwoCores) {
  const Options options = Parse({});

  EXPECT_FALSE(options.plan.is_quick);
  EXPECT_EQ(options.plan.time_limit, absl::InfiniteDuration());
  EXPECT_EQ(options.plan.only, "");
  EXPECT_EQ(options.plan.measure.repetitions, 5);
  EXPECT_EQ(options.plan.measure.trial_time, absl::Milliseconds(100));
  EXPECT_THAT(options.server_cpus, ElementsAre(0));
  EXPECT_THAT(options.client_cpus, ElementsAre(1));
  EXPECT_EQ(options.json_file, "");
  EXPECT_EQ(options.markdown_file, "");
}

TEST(OptionsTest, AQuickRunHasShorterTrialsButAsMany) {
  const Options options = Parse({"--quick"});

  EXPECT_TRUE(options.plan.is_quick);
  EXPECT_LT(options.plan.time_limit, absl::Minutes(2));
  EXPECT_EQ(options.plan.measure.repetitions, 5);
  EXPECT_EQ(options.plan.measure.trial_time, absl::Milliseconds(30));
}

TEST(OptionsTest, FlagsTakeTheirValuesWithOrWithoutAnEqualsSign) {
  const Options options =
      Parse({"--json", "a.json", "--markdown=b.md", "--only", "push/64MiB",
             "--repetitions=9", "--trial_ms=5", "--server_cpus=0,2",
             "--client_cpus=3", "--server=s", "--reference_server=r",
             "--revision=v1", "--command", "tools/bench --quick"});

  EXPECT_EQ(options.json_file, "a.json");
  EXPECT_EQ(options.markdown_file, "b.md");
  EXPECT_EQ(options.plan.only, "push/64MiB");
  EXPECT_EQ(options.plan.measure.repetitions, 9);
  EXPECT_EQ(options.plan.measure.trial_time, absl::Milliseconds(5));
  EXPECT_THAT(options.server_cpus, ElementsAre(0, 2));
  EXPECT_THAT(options.client_cpus, ElementsAre(3));
  EXPECT_EQ(options.tensorkv_server, "s");
  EXPECT_EQ(options.reference_server, "r");
  EXPECT_EQ(options.revision, "v1");
  EXPECT_EQ(options.command, "tools/bench --quick");
}

TEST(OptionsTest, HelpIsNoError) {
  const EarlyExit exit = Refuse({"--help"});

  EXPECT_EQ(exit.code, 0);
  EXPECT_THAT(exit.text, HasSubstr("--quick"));
}

TEST(OptionsTest, WrongFlagsAreOneLine) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--fast"},
        {"--repetitions=0"},
        {"--server_cpus=all"},
        {"--json"},
        {"extra"}}) {
    const EarlyExit exit = Refuse(arguments);
    EXPECT_EQ(exit.code, 2);
    EXPECT_THAT(exit.text, ::testing::MatchesRegex("bench: [^\n]+\n"));
  }
}

}  // namespace
}  // namespace tensorkv::bench
