#include "client/cli/run_cli.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "base/bearer_token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cli/run_on.h"
#include "tests/client/scripted_connection.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Full;
using ::tensorkv::testing::Outcome;
using ::tensorkv::testing::RunOn;
using ::tensorkv::testing::Script;
using ::tensorkv::testing::ScriptedConnection;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class WrongCommandLinesTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    , WrongCommandLinesTest,
    ::testing::Values(
        "", "paint", "--output=xml ls", "ls --colour", "pull", "stat", "rm",
        "ns", "rule", "ns create", "ns rm", "rule set", "rule tune", "init 3",
        "init 3 --fill=2", "init 3 --fill=2 --shape=2,x",
        "init 3 --fill=2 --shape=2 --dtype=f31", "init 3 --fill --shape=2",
        "init 3 --npy=/no/such/file", "init 3 --npy=- --fill=1",
        "init 3 --fill=2 --shape=2 --on_existing=maybe", "push 3",
        "push 3 --fill=1 --times=0", "push 3 --fill=1 --times=-1",
        "push 3 --fill=1 --rank=-1", "push 3 --fill=1 --step=x",
        "push 3 --fill=1 --step=-1", "pull 3 5 --npy=x.npy",
        "pull 3 --min_version=-1", "pull 3 --prefix=a", "rm 3 -p a",
        "ls --limit=-1", "ls --timeout=0", "ls --timeout=-1s",
        "ls --timeout=soon", "ls --timeout=7", "ns create n --quorum_grace=0",
        "rule set sgd(", "rule set sgd( --lr_mult=2", "rule tune momentum",
        "rule tune momentum=much", "ns create n --mode=fast",
        "ns create n --rule=sgd(", "ns create n --budget=lots",
        "ns create n --budget=-1", "ns create n --workers=-2"));

TEST_P(WrongCommandLinesTest, AreOneLineAndExitCode2) {
  Script script;

  const Outcome outcome =
      RunOn(std::make_unique<ScriptedConnection>(script),
            absl::StrSplit(GetParam(), ' ', absl::SkipEmpty()));

  EXPECT_EQ(outcome.exit_code, kExitUsage) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("tensorkv: "));
  EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  EXPECT_THAT(script.verbs, IsEmpty());
}

TEST(ClusterCliTest, ListsServersAndWhatTheyHave) {
  Script script;
  script.reply<DescribeClusterRequest>().placement = {
      .cluster = "c",
      .version = 7,
      .servers = {{.name = "a", .address = "a:1", .is_live = true},
                  {.name = "b", .address = "b:1"}},
      .owners = {0, 1, 0}};
  script.reply<DescribeServerRequest>().used_bytes = 2048;
  script.reply<ListNamespacesRequest>().namespaces = {{.num_keys = 3},
                                                      {.num_keys = 4}};
  const auto run = [&](const std::vector<std::string>& arguments) {
    std::istringstream in;
    std::ostringstream out;
    RunCli(arguments,
           {.connect =
                [&](const std::string&, const Credentials&) {
                  return std::make_unique<ScriptedConnection>(script);
                },
            .in = in,
            .out = out,
            .err = out});
    return out.str();
  };

  EXPECT_EQ(
      run({"cluster", "status"}),
      "name  address  is_live  partitions  to_restore  num_keys  used_bytes\n"
      "a     a:1      true     2           0           7         2.0 KiB\n"
      "b     b:1      false    1           0           ?         ?\n");
  EXPECT_THAT(
      run({"cluster", "status", "--output=json"}),
      AllOf(HasSubstr(R"("partitions":2,"to_restore":0,"num_keys":"7")"),
            HasSubstr("\"partitions\":1,\"to_restore\":0}\n")));
  script.reply<ResizeClusterRequest>() = {.servers = {{.name = "a"}},
                                          .partitions_to_move = 3};
  EXPECT_EQ(
      run({"cluster", "resize", "--remove=b"}),
      "servers:                name=a address=\"\" weight=1 is_live=false\n"
      "partitions_to_move:     3\n"
      "partitions_to_restore:  0\n");
}

TEST(RunCliTest, UnknownCommandIsNamed) {
  EXPECT_THAT(RunOn(nullptr, {"paint"}).err, HasSubstr("command: paint ("));
  EXPECT_THAT(RunOn(nullptr, {"ns", "paint"}).err, HasSubstr("command: paint"));
}

TEST(RunCliTest, WrongCommandLineLeadsToTheHelpOfItsCommand) {
  EXPECT_THAT(RunOn(nullptr, {}).err, HasSubstr("(see tensorkv --help)"));
  EXPECT_THAT(RunOn(nullptr, {"rule"}).err,
              HasSubstr("(see tensorkv rule --help)"));
  EXPECT_THAT(RunOn(nullptr, {"ns", "create"}).err,
              HasSubstr("(see tensorkv ns create --help)"));
}

class HelpTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, HelpTest,
                         ::testing::Values("--help", "init --help",
                                           "ns create --help", "rule -h"));

TEST_P(HelpTest, IsOutputAndExitCode0) {
  const Outcome outcome = RunOn(nullptr, absl::StrSplit(GetParam(), ' '));

  EXPECT_EQ(outcome.exit_code, kExitOk);
  EXPECT_THAT(outcome.out, HasSubstr("Usage: tensorkv"));
  EXPECT_EQ(outcome.err, "");
}

TEST(RunCliTest, GlobalFlagsStandBeforeOrAfterTheCommand) {
  Script script;

  for (const char* line : {"--timeout=7s --namespace=n --rank=3 pull w",
                           "pull w --timeout=7s --namespace=n --rank=3"}) {
    RunOn(std::make_unique<ScriptedConnection>(script),
          absl::StrSplit(line, ' '));
    EXPECT_EQ(script.last<PullRequest>().name_space, "n");
    EXPECT_EQ(script.last<PullRequest>().worker->rank, 3);
  }

  EXPECT_THAT(script.timeouts, ElementsAre(absl::Seconds(7), absl::Seconds(7)));
}

TEST(RunCliTest, LastOfRepeatedGlobalFlagsCounts) {
  Script script;

  RunOn(std::make_unique<ScriptedConnection>(script),
        {"--namespace=a", "ls", "--namespace=b"});

  EXPECT_EQ(script.last<ListRequest>().name_space, "b");
}

TEST(RunCliTest, LsReadsAllPages) {
  Script script;
  script.reply<ListRequest>().keys.resize(1);
  script.reply<ListRequest>().next_page_token = "t";
  script.during_call = [&] {
    script.reply<ListRequest>().next_page_token += "+";
    if (script.verbs.size() == 3) script.statuses = {absl::AbortedError("")};
  };

  const auto run = RunOn(std::make_unique<ScriptedConnection>(script), {"ls"});

  EXPECT_THAT(script.verbs, ElementsAre("List", "List", "List"));
  EXPECT_EQ(script.last<ListRequest>().page_token, "t+");
  EXPECT_EQ(run.out.find("dtype"), run.out.rfind("dtype"))
      << "one header for all pages:\n"
      << run.out;
}

TEST(RunCliTest, PushWithDTypeAndShapeAsksNothingBefore) {
  Script script;
  script.reply<PushRequest>().results = {{.version = 2}};

  RunOn(std::make_unique<ScriptedConnection>(script),
        {"push", "w", "--fill=1", "--shape=2", "--dtype=f32"});

  EXPECT_THAT(script.verbs, ElementsAre("Push"));
}

TEST(RunCliTest, PullWaitsIfToldTo) {
  Script script;

  RunOn(std::make_unique<ScriptedConnection>(script),
        {"pull", "w", "--wait_for_keys", "--min_version=4"});

  EXPECT_TRUE(script.last<PullRequest>().wait_for_keys);
  EXPECT_EQ(script.last<PullRequest>().entries.at(0).min_version, 4);
}

TEST(RunCliTest, ServerThatBreaksTheContractIsAnError) {
  Script script;

  const Outcome outcome =
      RunOn(std::make_unique<ScriptedConnection>(script), {"pull", "w"});

  EXPECT_EQ(outcome.exit_code, kExitCallFailed);
  EXPECT_THAT(outcome.err, StartsWith("tensorkv: INTERNAL: "));
}

TEST(RunCliTest, OutputThatCannotBeWrittenIsAnError) {
  Script script;
  for (const char* command : {"ls", "server", "--help", "--version"}) {
    std::istringstream in;
    std::ostream nowhere(nullptr);
    std::ostringstream err;

    const int exit_code = RunCli(
        {command}, {.connect =
                        [&](const std::string&, const Credentials&) {
                          return std::make_unique<ScriptedConnection>(script);
                        },
                    .check_health = nullptr,
                    .in = in,
                    .out = nowhere,
                    .err = err});

    EXPECT_EQ(exit_code, kExitCallFailed) << command;
    EXPECT_THAT(err.str(), HasSubstr("cannot write")) << command;
  }
}

TEST(RunCliTest, ReaderThatHasGoneIsToldNothing) {
  Script script;
  for (const char* command : {"ls", "server", "--help", "--version"}) {
    std::istringstream in;
    std::ostream nowhere(nullptr);
    std::ostringstream err;

    const int exit_code = RunCli(
        {command}, {.connect =
                        [&](const std::string&, const Credentials&) {
                          return std::make_unique<ScriptedConnection>(script);
                        },
                    .check_health = nullptr,
                    .in = in,
                    .out = nowhere,
                    .err = err,
                    .is_reader_gone = [] { return true; }});

    EXPECT_EQ(exit_code, kExitReaderGone) << command;
    EXPECT_EQ(err.str(), "") << command;
  }
}

TEST(RunCliTest, FileThatCannotBeWrittenIsNoMistakeOfTheCommandLine) {
  Script script;
  script.reply<PullRequest>().values = {{.version = 1, .tensor = Full({1}, 1)}};

  const Outcome outcome = RunOn(std::make_unique<ScriptedConnection>(script),
                                {"pull", "w", "--npy=/nowhere/w.npy"});

  EXPECT_EQ(outcome.exit_code, kExitCallFailed);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--npy=/nowhere/w.npy"),
                                 HasSubstr("No such file")));
}

TEST(RunCliTest, ServerPrintsWhatItIs) {
  Script script;
  script.reply<DescribeServerRequest>() = {.version = "1.2",
                                           .incarnation = 0xab,
                                           .devices = {"cpu"},
                                           .budget_bytes = 64,
                                           .used_bytes = 8};

  EXPECT_THAT(
      RunOn(std::make_unique<ScriptedConnection>(script), {"server"}).out,
      AllOf(HasSubstr("version:            1.2\n"),
            HasSubstr("incarnation:        00000000000000ab\n"),
            HasSubstr("devices:            [cpu]\n"),
            HasSubstr("used_bytes:         8 B\n")));
  EXPECT_THAT(RunOn(std::make_unique<ScriptedConnection>(script),
                    {"server", "--output=json"})
                  .out,
              HasSubstr("\"used_bytes\":\"8\""));
}

TEST(RunCliTest, ServerOfTheEnvironmentIsTheDefault) {
  Script script;
  std::string target;
  std::istringstream in;
  std::ostringstream out;
  const CliEnvironment environment = {
      .connect =
          [&](const std::string& server, const Credentials&) {
            target = server;
            return std::make_unique<ScriptedConnection>(script);
          },
      .check_health = nullptr,
      .in = in,
      .out = out,
      .err = out};

  RunCli({"ls"}, environment);
  EXPECT_EQ(target, "127.0.0.1:7363");
  setenv("TENSORKV_SERVER", "10.0.0.4:7363", /*overwrite=*/1);
  RunCli({"ls"}, environment);
  EXPECT_EQ(target, "10.0.0.4:7363");
  RunCli({"ls", "--server=10.0.0.5:1"}, environment);
  EXPECT_EQ(target, "10.0.0.5:1");
  unsetenv("TENSORKV_SERVER");
}

TEST(RunCliTest, CredentialsAreFlagsOfAllCommands) {
  Script script;
  Credentials credentials;
  std::istringstream in;
  std::ostringstream out;

  RunCli({"ls", "--tls_ca=a", "--tls_cert=c", "--tls_key=k",
          "--tls_server_name=s", "--token_file=t"},
         {.connect =
              [&](const std::string&, const Credentials& given) {
                credentials = given;
                return std::make_unique<ScriptedConnection>(script);
              },
          .check_health = nullptr,
          .in = in,
          .out = out,
          .err = out});

  EXPECT_EQ(credentials.tls_ca, "a");
  EXPECT_EQ(credentials.tls_cert, "c");
  EXPECT_EQ(credentials.tls_key, "k");
  EXPECT_EQ(credentials.tls_server_name, "s");
  EXPECT_EQ(credentials.token_file, "t");
}

TEST(RunCliTest, NewTokenIsWrittenForItsOwnerAndNotPrinted) {
  Script script;
  const std::string path = ::testing::TempDir() + "/new_token";
  std::remove(path.c_str());
  const std::vector<std::string> arguments = {"token", "new", "alice", path};

  const Outcome made =
      RunOn(std::make_unique<ScriptedConnection>(script), arguments);

  std::string token;
  std::ifstream(path) >> token;
  EXPECT_GE(token.size(), 43u);
  const TokenDigest digest = DigestOf(token);
  EXPECT_EQ(made.out, "alice " +
                          absl::BytesToHexString(
                              {reinterpret_cast<const char*>(digest.data()),
                               digest.size()}) +
                          "\n");
  struct stat file;
  ASSERT_EQ(stat(path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  const Outcome again =
      RunOn(std::make_unique<ScriptedConnection>(script), arguments);
  EXPECT_EQ(again.exit_code, kExitUsage);
  EXPECT_EQ(again.out, "");
  const Outcome nameless = RunOn(std::make_unique<ScriptedConnection>(script),
                                 {"token", "new", "", path + ".nameless"});
  EXPECT_EQ(nameless.exit_code, kExitUsage);
  EXPECT_EQ(nameless.out, "");
}

TEST(RunCliTest, HealthIsExitCode0OnlyIfServing) {
  Script script;

  const Outcome healthy =
      RunOn(std::make_unique<ScriptedConnection>(script), {"health"});
  EXPECT_EQ(healthy.exit_code, kExitOk);
  EXPECT_EQ(healthy.out, "SERVING\n");

  const Outcome unhealthy =
      RunOn(std::make_unique<ScriptedConnection>(script), {"health"}, "",
            absl::UnavailableError("expected SERVING,\ngot\033NOT_SERVING"));
  EXPECT_EQ(unhealthy.exit_code, kExitCallFailed);
  EXPECT_EQ(unhealthy.err,
            "tensorkv: UNAVAILABLE: expected SERVING, got NOT_SERVING\n");
}

}  // namespace
}  // namespace tensorkv
