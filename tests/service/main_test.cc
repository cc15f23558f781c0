// Runs the binary, as an operator would.

#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/child_process.h"

namespace tensorkv {
namespace {

using ::testing::AllOf;
using testing::ChildProcess;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kBinary[] = "service/tensorkv-server";

std::vector<std::string> Command(std::vector<std::string> flags) {
  flags.insert(flags.begin(), kBinary);
  return flags;
}

// The value of a field in a line of the log.
std::string FieldOf(const std::string& line, const std::string& name) {
  const size_t begin = line.find(" " + name + "=");
  if (begin == std::string::npos) return "";
  const size_t value = begin + name.size() + 2;
  return line.substr(value, line.find(' ', value) - value);
}

TEST(MainTest, VersionIsOneLine) {
  ChildProcess version(Command({"--version"}));

  EXPECT_EQ(version.Wait(), 0);
  EXPECT_THAT(version.output(), StartsWith("tensorkv-server "));
}

class WrongFlagTest : public ::testing::TestWithParam<std::string> {};

TEST_P(WrongFlagTest, IsOneLineAndStatus2) {
  ChildProcess process(Command({GetParam()}));

  EXPECT_EQ(process.Wait(), 2);
  const std::string& output = process.output();
  EXPECT_THAT(output, AllOf(StartsWith("tensorkv-server: "), EndsWith("\n")));
  EXPECT_EQ(output.find('\n'), output.size() - 1) << output;
}

INSTANTIATE_TEST_SUITE_P(Flags, WrongFlagTest,
                         ::testing::Values("--nonsense", "--device=cuda:1000"));

TEST(MainTest, ServesUntilSigterm) {
  ChildProcess server(
      Command({"--listen=127.0.0.1:0", "--metrics_listen=", "--budget=64MiB"}));

  const std::string line = server.WaitForLine(" ready ");

  EXPECT_THAT(FieldOf(line, "listen"), StartsWith("127.0.0.1:"));
  EXPECT_NE(FieldOf(line, "listen"), "127.0.0.1:0");
  EXPECT_EQ(FieldOf(line, "metrics"), "off");
  EXPECT_EQ(FieldOf(line, "devices"), "cpu");
  EXPECT_EQ(FieldOf(line, "budget_bytes"), "67108864");
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0) << server.output();
}

TEST(MainTest, ServesUntilSigint) {
  ChildProcess server(Command({"--listen=127.0.0.1:0", "--metrics_listen="}));
  server.WaitForLine(" ready ");

  server.Signal(SIGINT);

  EXPECT_EQ(server.Wait(), 0) << server.output();
}

TEST(MainTest, SighupReadsTheLevelOfTheLogAgain) {
  const std::string config = absl::StrCat(::testing::TempDir(), "/reload.conf");
  std::ofstream(config) << "log_level = \"warning\"\n";
  ChildProcess server(Command({"--config=" + config, "--log_format=json",
                               "--listen=127.0.0.1:0",
                               "--metrics_listen=", "--budget=1000000GiB"}));
  // The line "ready" is none at this level.
  EXPECT_THAT(server.WaitForLine(" is more than the memory"),
              AllOf(StartsWith(R"({"time":")"),
                    HasSubstr(R"(","level":"warning","message":"budget_)")));

  std::ofstream(config) << "log_level = \"loud\"\n";
  server.Signal(SIGHUP);
  EXPECT_THAT(server.WaitForLine("not reloaded"), HasSubstr("--log_level"));
  std::ofstream(config) << "log_level = \"debug\"\n";
  server.Signal(SIGHUP);

  EXPECT_NE(server.WaitForLine("reloaded log_level=debug"), "");
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

TEST(MainTest, SighupReadsThePolicyAgain) {
  const std::string policy = absl::StrCat(::testing::TempDir(), "/policy");
  std::ofstream(policy) << "# Nobody may do anything.\n";
  ChildProcess server(Command({"--listen=127.0.0.1:0", "--metrics_listen=",
                               "--policy_file=" + policy}));
  EXPECT_NE(server.WaitForLine("ready listen="), "");

  std::ofstream(policy) << "grants { callers: \"anonymous\" }";
  server.Signal(SIGHUP);
  EXPECT_THAT(server.WaitForLine("not reloaded"),
              HasSubstr("grant 1: namespaces"));
  std::ofstream(policy)
      << R"(grants { callers: "unix" namespaces: "*" role: ADMIN })";
  server.Signal(SIGHUP);

  EXPECT_NE(server.WaitForLine("reloaded grants=1 tokens=0"), "");
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

TEST(MainTest, UnixSocketOfALivingServerIsRefused) {
  const std::string address = absl::StrCat("unix:/tmp/tensorkv-", getpid());
  ChildProcess first(Command({"--listen=" + address, "--metrics_listen="}));
  first.WaitForLine(" ready ");

  ChildProcess second(Command({"--listen=" + address, "--metrics_listen="}));

  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.output(), HasSubstr("Address already in use"));
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 0);
}

TEST(MainTest, AddressInUseIsOneLineAndStatus1) {
  ChildProcess first(Command({"--listen=127.0.0.1:0", "--metrics_listen="}));
  const std::string address = FieldOf(first.WaitForLine(" ready "), "listen");

  ChildProcess second(Command({"--listen=" + address, "--metrics_listen="}));

  EXPECT_EQ(second.Wait(), 1);
  EXPECT_EQ(second.output(), "tensorkv-server: cannot listen on " + address +
                                 ": Address already in use\n");
}

}  // namespace
}  // namespace tensorkv
