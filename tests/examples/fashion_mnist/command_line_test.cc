#include "examples/fashion_mnist/command_line.h"

#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::fashion_mnist {
namespace {

using ::absl::StatusCode;
using ::tensorkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TrainingOptions Parse(const std::vector<std::string>& arguments) {
  const absl::StatusOr<CommandLine> parsed = ParseCommandLine(arguments);
  EXPECT_OK(parsed);
  return parsed.ok() ? std::get<TrainingOptions>(*parsed) : TrainingOptions{};
}

TEST(CommandLineTest, DefaultIsSyncTrainingOfFourWorkers) {
  const TrainingOptions options = Parse({});

  EXPECT_EQ(options.mode, Mode::kSync);
  EXPECT_EQ(options.common.num_workers, 4);
  EXPECT_EQ(options.rule.name, "sgd");
  EXPECT_EQ(options.common.name_space, "");
}

TEST(CommandLineTest, FlagsReplaceDefaults) {
  const TrainingOptions options =
      Parse({"--server=host:1", "--mode=async", "--workers=2", "--epochs=3",
             "--batch_size=5", "--seed=9", "--data_dir=/d", "--namespace=n"});

  EXPECT_EQ(options.common.server, "host:1");
  EXPECT_EQ(options.mode, Mode::kAsync);
  EXPECT_EQ(options.common.num_workers, 2);
  EXPECT_EQ(options.common.num_epochs, 3);
  EXPECT_EQ(options.common.batch_size, 5);
  EXPECT_EQ(options.common.seed, 9);
  EXPECT_EQ(options.common.data_dir, "/d");
  EXPECT_EQ(options.common.name_space, "n");
}

TEST(CommandLineTest, LearningRateOverridesThatOfTheRule) {
  const TrainingOptions options = Parse(
      {"--rule=adam(beta1=0.8, learning_rate=0.5)", "--learning_rate=0.25"});

  EXPECT_EQ(options.rule.name, "adam");
  EXPECT_THAT(
      options.rule.hyperparameters,
      UnorderedElementsAre(Pair("beta1", 0.8), Pair("learning_rate", 0.25)));
}

TEST(CommandLineTest, WorkerArgumentsAreReadBack) {
  WorkerOptions options;
  options.common.server = "host:1";
  options.common.name_space = "a namespace";
  options.common.data_dir = "/d";
  options.common.num_workers = 7;
  options.common.num_epochs = 3;
  options.common.batch_size = 5;
  options.common.seed = 9;
  options.rank = 6;

  ASSERT_OK_AND_ASSIGN(const CommandLine parsed,
                       ParseCommandLine(WorkerArguments(options)));

  EXPECT_EQ(WorkerArguments(std::get<WorkerOptions>(parsed)),
            WorkerArguments(options));
}

TEST(CommandLineTest, HelpNamesTheFlags) {
  ASSERT_OK_AND_ASSIGN(const CommandLine parsed, ParseCommandLine({"--help"}));

  EXPECT_THAT(std::get<HelpText>(parsed).text,
              AllOf(HasSubstr("--mode"), HasSubstr("--workers"),
                    Not(HasSubstr("--rank"))));
}

class WrongFlagTest : public ::testing::TestWithParam<std::string> {};

TEST_P(WrongFlagTest, IsInvalidInOneLine) {
  EXPECT_THAT(ParseCommandLine({GetParam()}),
              StatusIs(StatusCode::kInvalidArgument, Not(HasSubstr("\n"))));
}

INSTANTIATE_TEST_SUITE_P(EveryFlag, WrongFlagTest,
                         ::testing::Values("--mode=bounded", "--workers=0",
                                           "--workers=257", "--workers=two",
                                           "--epochs=0", "--batch_size=-1",
                                           "--learning_rate=fast",
                                           "--rule=adam(", "--colour=red",
                                           "surplus", "worker"));

}  // namespace
}  // namespace tensorkv::fashion_mnist
