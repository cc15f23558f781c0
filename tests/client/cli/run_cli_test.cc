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
#include "contract/proto_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cli/run_on.h"
#include "tests/client/scripted_connection.h"
#include "tests/testing/key_requests.h"
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

// Command lines on a connection that plays a script.
template <typename Base>
class ScriptedCli : public Base {
 protected:
  Outcome Run(const std::vector<std::string>& arguments) {
    return RunOn([&] { return std::make_unique<ScriptedConnection>(script_); },
                 arguments);
  }
  // Splits `line` at blanks.
  Outcome Run(const char* line) {
    return Run(
        std::vector<std::string>(absl::StrSplit(line, ' ', absl::SkipEmpty())));
  }

  Script script_;
};

using RunCliTest = ScriptedCli<::testing::Test>;
using CommandLinesTest = ScriptedCli<::testing::TestWithParam<const char*>>;

class WrongCommandLinesTest : public CommandLinesTest {};
INSTANTIATE_TEST_SUITE_P(
    , WrongCommandLinesTest,
    ::testing::Values(
        "", "paint", "--output=xml ls", "ls --colour", "pull", "stat", "rm",
        "ns", "rule", "ns create", "ns rm", "rule set", "rule tune", "init 3",
        "init 3 --fill=2", "init 3 --fill=2 --shape=2,x",
        "init 3 --fill=2 --shape=2 --dtype=f31", "init 3 --fill --shape=2",
        "init 3 --fill=1e309 --shape=2", "init 3 --npy=/no/such/file",
        "init 3 --npy=- --fill=1",
        "init 3 --fill=2 --shape=2 --on_existing=maybe", "push 3",
        "push 3 --fill=1 --times=0", "push 3 --fill=1 --times=-1",
        "push 3 --fill=1 --rank=-1", "push 3 --fill=1 --step=x",
        "push 3 --fill=1 --step=-1", "push 3 --fill=1 --compression=3bit",
        "pull 3 5 --npy=x.npy", "pull 3 --min_version=-1", "pull 3 --prefix=a",
        "pull 3 --at=s@x", "pull 3 --at=s@",
        "pull 3 --at=s@>=", "pull 3 --at=s@-1", "pull 3 --at=s --min_version=1",
        "pull 3 --at=s -w", "snapshot", "snapshot create",
        "snapshot create s --number=-1", "snapshot create s --ttl=0",
        "snapshot create s --metadata=x", "snapshot create s --keep_last=x",
        "snapshot show", "snapshot show s@x", "watch --interval=soon",
        "watch --count=-1", "snapshot rm", "snapshot rm s@latest",
        "snapshot rm s@>=3", "snapshot rm s@x", "rm 3 -p a", "ls --limit=-1",
        "ls --timeout=0", "ls --timeout=-1s", "ls --timeout=soon",
        "ls --timeout=7", "rule set sgd(", "rule set sgd( --lr_mult=2",
        "rule tune momentum", "rule tune momentum=much",
        "ns create n --mode=fast", "ns create n --rule=sgd(",
        "ns create n --quorum_grace=-1s", "ns create n --budget=lots",
        "ns create n --budget=-1", "ns create n --workers=-2", "ns update",
        "ns update n", "ns update n --mode=sync"));

TEST_P(WrongCommandLinesTest, AreOneLineAndExitCode2) {
  const Outcome outcome = Run(GetParam());

  EXPECT_EQ(outcome.exit_code, kExitUsage) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("tensorkv: "));
  EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  EXPECT_THAT(script_.verbs, IsEmpty());
}

TEST_F(RunCliTest, WrongCommandLineIsExplained) {
  EXPECT_THAT(Run("paint").err, HasSubstr("command: paint ("));
  EXPECT_THAT(Run("ns paint").err, HasSubstr("command: paint"));
  EXPECT_THAT(Run("").err, HasSubstr("(see tensorkv --help)"));
  EXPECT_THAT(Run("rule").err, HasSubstr("(see tensorkv rule --help)"));
  EXPECT_THAT(Run("ns create").err,
              HasSubstr("(see tensorkv ns create --help)"));
  EXPECT_THAT(Run("push 3 -f much").err,
              HasSubstr("--fill: expected a number"));
}

class HelpTest : public CommandLinesTest {};
INSTANTIATE_TEST_SUITE_P(, HelpTest,
                         ::testing::Values("--help", "init --help",
                                           "ns create --help", "rule -h",
                                           "snapshot create --help"));

TEST_P(HelpTest, IsOutputAndExitCode0) {
  const Outcome outcome = Run(GetParam());

  EXPECT_EQ(outcome.exit_code, kExitOk);
  EXPECT_THAT(outcome.out, HasSubstr("Usage: tensorkv"));
  EXPECT_EQ(outcome.err, "");
}

TEST_F(RunCliTest, ClusterStatusListsServersAndWhatTheyHave) {
  ToProto({.cluster = "c",
           .version = 7,
           .servers = {{.name = "a", .address = "a:1", .live = true},
                       {.name = "b", .address = "b:1"}},
           .owners = {0, 1, 0}},
          script_.reply<DescribeClusterRequest>().mutable_placement());
  script_.reply<DescribeServerRequest>().set_used_bytes(2048);
  for (const uint64_t num_keys : {3, 4}) {
    script_.reply<ListNamespacesRequest>().add_namespaces()->set_num_keys(
        num_keys);
  }

  EXPECT_EQ(
      Run("cluster status").out,
      "name  address  live   partitions  to_restore  num_keys  used_bytes\n"
      "a     a:1      true   2           0           7         2.0 KiB\n"
      "b     b:1      false  1           0           ?         ?\n");
  EXPECT_THAT(
      Run("cluster status --output=json").out,
      AllOf(HasSubstr(R"("partitions":2,"to_restore":0,"num_keys":"7")"),
            HasSubstr("\"partitions\":1,\"to_restore\":0}\n")));
}

TEST_F(RunCliTest, ClusterResizeTellsHowFarItIs) {
  ResizeClusterReply& reply = script_.reply<ResizeClusterRequest>();
  ToProto({.name = "a"}, reply.add_servers());
  reply.set_partitions_to_move(3);

  EXPECT_EQ(Run("cluster resize --remove=b").out,
            "servers:                name=a address=\"\" weight=1 "
            "live=false\n"
            "partitions_to_move:     3\n"
            "partitions_to_restore:  0\n");
}

TEST_F(RunCliTest, GlobalFlagsStandBeforeOrAfterTheCommand) {
  for (const char* line : {"--timeout=7s --namespace=n --rank=3 pull w",
                           "pull w --timeout=7s --namespace=n --rank=3"}) {
    Run(line);
    EXPECT_EQ(script_.last<PullRequest>().name_space, "n");
    EXPECT_EQ(script_.last<PullRequest>().worker->rank, 3);
  }

  EXPECT_THAT(script_.timeouts,
              ElementsAre(absl::Seconds(7), absl::Seconds(7)));
}

TEST_F(RunCliTest, LastOfRepeatedGlobalFlagsCounts) {
  Run("--namespace=a ls --namespace=b");

  EXPECT_EQ(script_.last<ListRequest>().namespace_(), "b");
}

TEST_F(RunCliTest, LsReadsAllPages) {
  script_.reply<ListRequest>() = testing::PageOfKeys({""}, "t");
  script_.during_call = [&] {
    *script_.reply<ListRequest>().mutable_next_page_token() += "+";
    if (script_.verbs.size() == 3) script_.statuses = {absl::AbortedError("")};
  };

  const Outcome run = Run("ls");

  EXPECT_THAT(script_.verbs, ElementsAre("List", "List", "List"));
  EXPECT_EQ(script_.last<ListRequest>().page_token(), "t+");
  EXPECT_EQ(run.out.find("dtype"), run.out.rfind("dtype"))
      << "one header for all pages:\n"
      << run.out;
}

TEST_F(RunCliTest, PushWithDTypeAndShapeAsksNothingBefore) {
  script_.reply<PushRequest>().results = {{.version = 2}};

  Run("push w --fill=1 --shape=2 --dtype=f32");

  EXPECT_THAT(script_.verbs, ElementsAre("Push"));
}

TEST_F(RunCliTest, PullWaitsIfToldTo) {
  Run("pull w --wait_for_keys --min_version=4");

  EXPECT_TRUE(script_.last<PullRequest>().wait_for_keys);
  EXPECT_EQ(script_.last<PullRequest>().entries.at(0).min_version, 4);
}

TEST_F(RunCliTest, FailedCallIsOneLineAndExitCode1) {
  script_.statuses = {absl::NotFoundError("key,\nof\033nobody")};

  const Outcome outcome = Run("pull w");

  EXPECT_EQ(outcome.exit_code, kExitCallFailed);
  EXPECT_EQ(outcome.err, "tensorkv: NOT_FOUND: key, of nobody\n");
}

TEST_F(RunCliTest, ServerThatBreaksTheContractIsAnError) {
  const Outcome outcome = Run("pull w");

  EXPECT_EQ(outcome.exit_code, kExitCallFailed);
  EXPECT_THAT(outcome.err, StartsWith("tensorkv: INTERNAL: "));
}

TEST_F(RunCliTest, FileThatCannotBeWrittenIsNoMistakeOfTheCommandLine) {
  script_.reply<PullRequest>().values = {
      {.version = 1, .tensor = Full({1}, 1)}};

  const Outcome outcome = Run("pull w --npy=/nowhere/w.npy");

  EXPECT_EQ(outcome.exit_code, kExitCallFailed);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--npy=/nowhere/w.npy"),
                                 HasSubstr("No such file")));
}

TEST_F(RunCliTest, ServerPrintsWhatItIs) {
  ServerStatus& status = script_.reply<DescribeServerRequest>();
  status.set_version("1.2");
  status.set_incarnation(0xab);
  status.add_devices("cpu");
  status.set_budget_bytes(64);
  status.set_used_bytes(8);

  EXPECT_THAT(Run("server").out,
              AllOf(HasSubstr("version:            1.2\n"),
                    HasSubstr("incarnation:        00000000000000ab\n"),
                    HasSubstr("devices:            [cpu]\n"),
                    HasSubstr("used_bytes:         8 B\n")));
  EXPECT_THAT(Run("server --output=json").out,
              HasSubstr("\"used_bytes\":\"8\""));
}

// What the client takes from outside, as the test has it.
class CliEnvironmentTest : public ::testing::Test {
 protected:
  int Run(const std::vector<std::string>& arguments, std::ostream& out,
          bool is_reader_gone = false) {
    return RunCli(
        arguments,
        {.connect =
             [&](const std::string& target, const Credentials& credentials) {
               target_ = target;
               credentials_ = credentials;
               return std::make_unique<ScriptedConnection>(script_);
             },
         .in = in_,
         .out = out,
         .err = err_,
         .is_reader_gone = [&] { return is_reader_gone; }});
  }

  Script script_;
  std::string target_;
  Credentials credentials_;
  std::istringstream in_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(CliEnvironmentTest,
       OutputThatCannotBeWrittenIsAnErrorUnlessNobodyReads) {
  for (const char* command : {"ls", "server", "--help", "--version"}) {
    std::ostream nowhere(nullptr);
    err_.str("");

    EXPECT_EQ(Run({command}, nowhere, /*is_reader_gone=*/true), kExitReaderGone)
        << command;
    EXPECT_EQ(err_.str(), "") << command;

    EXPECT_EQ(Run({command}, nowhere), kExitCallFailed) << command;
    EXPECT_THAT(err_.str(), HasSubstr("cannot write")) << command;
  }
}

TEST_F(CliEnvironmentTest, ServerOfTheEnvironmentIsTheDefault) {
  Run({"ls"}, out_);
  EXPECT_EQ(target_, "127.0.0.1:7363");
  setenv("TENSORKV_TARGET", "10.0.0.4:7363", /*overwrite=*/1);
  Run({"ls"}, out_);
  EXPECT_EQ(target_, "10.0.0.4:7363");
  Run({"ls", "--target=10.0.0.5:1"}, out_);
  EXPECT_EQ(target_, "10.0.0.5:1");
  unsetenv("TENSORKV_TARGET");
}

TEST_F(CliEnvironmentTest, CredentialsAreFlagsOfAllCommands) {
  Run({"ls", "--tls_ca=a", "--tls_cert=c", "--tls_key=k", "--tls_server_name=s",
       "--token_file=t"},
      out_);

  EXPECT_EQ(credentials_.tls_ca, "a");
  EXPECT_EQ(credentials_.tls_cert, "c");
  EXPECT_EQ(credentials_.tls_key, "k");
  EXPECT_EQ(credentials_.tls_server_name, "s");
  EXPECT_EQ(credentials_.token_file, "t");
}

TEST_F(RunCliTest, NewTokenIsWrittenForItsOwnerAndNotPrinted) {
  const std::string path = ::testing::TempDir() + "/new_token";
  std::remove(path.c_str());

  const std::vector<std::string> arguments = {"token", "new", "alice", path};
  const Outcome made = Run(arguments);

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
  const std::vector<std::string> nameless = {"token", "new", "", path + ".2"};
  for (const auto& wrong : {arguments, nameless}) {
    const Outcome again = Run(wrong);
    EXPECT_EQ(again.exit_code, kExitUsage);
    EXPECT_EQ(again.out, "");
  }
}

}  // namespace
}  // namespace tensorkv
