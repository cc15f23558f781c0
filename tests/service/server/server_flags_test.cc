#include "service/server/server_flags.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace server_flags_test {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::variant<ServerFlags, EarlyExit> Parse(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "tensorkv-server");
  return ParseServerFlags(static_cast<int>(flags.size()), flags.data());
}

ServerFlags Parsed(const std::vector<const char*>& flags) {
  const auto result = Parse(flags);
  if (const auto* exit = std::get_if<EarlyExit>(&result)) {
    ADD_FAILURE() << exit->text;
    return {};
  }
  return std::get<ServerFlags>(result);
}

TEST(ServerFlagsTest, DefaultsAreThoseOfACarefulOperator) {
  const ServerFlags flags = Parsed({});

  EXPECT_EQ(flags.server.listen, "127.0.0.1:7363");
  EXPECT_EQ(flags.server.metrics_listen, "127.0.0.1:9464");
  EXPECT_EQ(flags.server.max_message_bytes, 64u << 20);
  EXPECT_FALSE(flags.server.insecure);
  EXPECT_EQ(flags.drain_timeout, absl::Seconds(10));
  EXPECT_EQ(flags.idle_memory, absl::Seconds(30));
  EXPECT_EQ(flags.log_level, "info");
  EXPECT_EQ(flags.log_format, "text");
  EXPECT_EQ(flags.server.device.kind, DeviceChoice::Kind::kCpu);
}

TEST(ServerFlagsTest, EveryFlagIsRead) {
  const ServerFlags flags = Parsed(
      {"--listen=0.0.0.0:1", "--insecure", "--metrics_listen=", "--budget=8GiB",
       "--threads=3", "--max_message_bytes=1MiB", "--max_streams=9",
       "--device=cuda:3", "--drain_timeout=500ms", "--idle_memory=2m",
       "--log_level=debug", "--device_budget=2GiB"});

  EXPECT_EQ(flags.server.device_budget_bytes, uint64_t{2} << 30);
  EXPECT_EQ(flags.server.listen, "0.0.0.0:1");
  EXPECT_EQ(flags.server.metrics_listen, "");
  EXPECT_EQ(flags.server.budget_bytes, uint64_t{8} << 30);
  EXPECT_EQ(flags.server.num_threads, 3);
  EXPECT_EQ(flags.server.max_message_bytes, 1u << 20);
  EXPECT_EQ(flags.server.max_streams, 9u);
  EXPECT_EQ(flags.drain_timeout, absl::Milliseconds(500));
  EXPECT_EQ(flags.idle_memory, absl::Minutes(2));
  EXPECT_EQ(flags.log_level, "debug");
  EXPECT_EQ(flags.server.device.kind, DeviceChoice::Kind::kCuda);
  EXPECT_EQ(flags.server.device.ordinal, 3);
}

TEST(ServerFlagsTest, EtcdMakesACluster) {
  const ServerFlags flags =
      Parsed({"--etcd=localhost:1,127.0.0.1:2", "--cluster=c",
              "--server_name=s", "--cluster_address=h:3", "--cluster_size=3",
              "--cluster_partitions=64", "--cluster_split_bytes=64MiB",
              "--cluster_weight=2.5", "--cluster_lease=5s",
              "--cluster_checkpoints=/shared", "--cluster_lost_after=5m"});

  ASSERT_TRUE(flags.server.cluster.has_value());
  const ClusterOptions& cluster = *flags.server.cluster;
  EXPECT_EQ(cluster.etcd,
            std::vector<std::string>({"localhost:1", "127.0.0.1:2"}));
  EXPECT_FALSE(cluster.etcd_tls);
  EXPECT_EQ(cluster.cluster, "c");
  EXPECT_EQ(cluster.server_name, "s");
  EXPECT_EQ(cluster.address, "h:3");
  EXPECT_EQ(cluster.size, 3u);
  EXPECT_EQ(cluster.num_partitions, 64u);
  EXPECT_EQ(cluster.split_bytes, 64u << 20);
  EXPECT_EQ(cluster.weight, 2.5);
  EXPECT_EQ(cluster.lease, absl::Seconds(5));
  EXPECT_EQ(cluster.lost_after, absl::Minutes(5));
  EXPECT_EQ(cluster.checkpoints, "/shared");
  EXPECT_EQ(flags.server.checkpoint_dir, "/shared/s");
  EXPECT_FALSE(Parsed({"--etcd="}).server.cluster.has_value());
}

TEST(ServerFlagsTest, EtcdIsAskedOverTlsWhereAFlagSaysSo) {
  struct Row {
    std::vector<const char*> flags;
    bool is_tls = true;
  };
  for (const Row& row : {
           Row{.flags = {"--etcd=https://a:1,https://b:2"}},
           {.flags = {"--etcd=https://a:1,b:2"}},
           {.flags = {"--etcd=a:1,b:2", "--etcd_tls_ca=f"}},
           {.flags = {"--etcd=a:1,b:2", "--etcd_tls_cert=f",
                      "--etcd_tls_key=g"}},
           {.flags = {"--etcd=http://a:1,b:2", "--insecure"}, .is_tls = false},
       }) {
    std::vector<const char*> flags = row.flags;
    flags.push_back("--server_name=s");

    const ClusterOptions cluster = *Parsed(flags).server.cluster;

    EXPECT_EQ(cluster.etcd, std::vector<std::string>({"a:1", "b:2"}));
    EXPECT_EQ(cluster.etcd_tls, row.is_tls) << row.flags[0];
  }
}

TEST(ServerFlagsTest, FlagsSayWhoTheServerIsToEtcd) {
  const ClusterOptions cluster =
      *Parsed({"--etcd=https://a:1", "--server_name=s", "--etcd_tls_ca=ca",
               "--etcd_tls_cert=cert", "--etcd_tls_key=key", "--etcd_user=u",
               "--etcd_password_file=password"})
           .server.cluster;

  EXPECT_EQ(cluster.etcd_tls_ca, "ca");
  EXPECT_EQ(cluster.etcd_tls_cert, "cert");
  EXPECT_EQ(cluster.etcd_tls_key, "key");
  EXPECT_EQ(cluster.etcd_user, "u");
  EXPECT_EQ(cluster.etcd_password_file, "password");
}

TEST(ServerFlagsTest, EmptyValueDoesNotTakeTheNextFlag) {
  EXPECT_EQ(Parsed({"--metrics_listen=", "--threads=3"}).server.num_threads, 3);
  EXPECT_EQ(Parsed({"--metrics_listen", ""}).server.metrics_listen, "");
}

TEST(ServerFlagsTest, StatusPageIsNotForThoseWhoMightNotReadByCalls) {
  EXPECT_TRUE(Parsed({}).server.status_page);
  EXPECT_FALSE(Parsed({"--status_page=off"}).server.status_page);
  EXPECT_FALSE(Parsed({"--policy_file=p"}).server.status_page);
  EXPECT_FALSE(Parsed({"--listen=unix:/s"}).server.status_page);
  EXPECT_FALSE(Parsed({"--tls_cert=c", "--tls_key=k", "--tls_client_ca=a"})
                   .server.status_page);
  EXPECT_TRUE(Parsed({"--tls_cert=c", "--tls_key=k"}).server.status_page);
  EXPECT_TRUE(
      Parsed({"--policy_file=p", "--status_page=on"}).server.status_page);
}

TEST(ServerFlagsTest, HelpAndVersionEndWellAtOnce) {
  const auto help = std::get<EarlyExit>(Parse({"--help"}));
  const auto version = std::get<EarlyExit>(Parse({"--version"}));

  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.text, HasSubstr("--listen"));
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.text,
              AllOf(StartsWith("tensorkv-server "), EndsWith("\n")));
}

// A file of flags for the time of a test.
std::string ConfigFile(const std::string& lines) {
  const std::string path = ::testing::TempDir() + "/server.conf";
  std::ofstream(path) << lines;
  return "--config=" + path;
}

TEST(ServerFlagsTest, FlagsComeFromAFileAndBeforeItFromTheCommandLine) {
  const std::string config =
      ConfigFile("listen = \"127.0.0.1:1\"\nthreads = 3\ninsecure = true\n");

  const ServerFlags flags = Parsed({config.c_str(), "--threads=5"});

  EXPECT_EQ(flags.server.listen, "127.0.0.1:1");
  EXPECT_EQ(flags.server.num_threads, 5);
  EXPECT_TRUE(flags.server.insecure);
}

// An environment variable for the time of a test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), /*overwrite=*/1);
  }
  ~Variable() { unsetenv(name_); }

 private:
  const char* const name_;
};

TEST(ServerFlagsTest, EnvironmentComesAfterTheCommandLineAndTheFile) {
  const Variable listen("TENSORKV_LISTEN", "127.0.0.1:1");
  const Variable insecure("TENSORKV_INSECURE", "true");
  const Variable threads("TENSORKV_THREADS", "3");
  const Variable streams("TENSORKV_MAX_STREAMS", "7");
  const Variable empty("TENSORKV_BUDGET", "");
  const std::string config = ConfigFile("threads = 5\nmax_streams = 8\n");

  const ServerFlags flags = Parsed({config.c_str(), "--max_streams=9"});

  EXPECT_EQ(flags.server.listen, "127.0.0.1:1");
  EXPECT_TRUE(flags.server.insecure);
  EXPECT_EQ(flags.server.num_threads, 5);
  EXPECT_EQ(flags.server.max_streams, 9u);
  EXPECT_EQ(flags.server.budget_bytes, 0u);
}

TEST(ServerFlagsTest, LastOfEqualFlagsCounts) {
  const ServerFlags flags =
      Parsed({"--budget=1GiB", "--threads=3", "--threads=4", "--budget=2GiB"});

  EXPECT_EQ(flags.server.num_threads, 4);
  EXPECT_EQ(flags.server.budget_bytes, uint64_t{2} << 30);
}

TEST(ServerFlagsTest, HelpNamesTheVariableOfEachFlagOfTheConfiguration) {
  const auto help = std::get<EarlyExit>(Parse({"--help"}));
  const auto config = std::get<EarlyExit>(Parse({"--print_config"}));

  std::istringstream lines(config.text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::string name = line.substr(0, line.find('='));
    absl::AsciiStrToUpper(&name);
    EXPECT_THAT(help.text, HasSubstr("(Env:TENSORKV_" + name + ")"));
  }
}

TEST(ServerFlagsTest, PrintedConfigIsAFileOfTheSameFlags) {
  const auto printed = std::get<EarlyExit>(
      Parse({"--threads=5", "--insecure", "--print_config"}));
  const std::string config = ConfigFile(printed.text);

  const auto again =
      std::get<EarlyExit>(Parse({config.c_str(), "--print_config"}));

  EXPECT_EQ(printed.code, 0);
  EXPECT_THAT(printed.text, HasSubstr("threads=5"));
  EXPECT_EQ(again.text, printed.text);
}

TEST(ServerFlagsTest, ConfigIsCheckedWithoutServing) {
  const std::string wrong = ConfigFile("drain_timeout = \"soon\"\n");
  EXPECT_EQ(std::get<EarlyExit>(Parse({"--check_config"})).code, 0);
  const auto exit =
      std::get<EarlyExit>(Parse({wrong.c_str(), "--check_config"}));
  EXPECT_EQ(exit.code, 2);
  EXPECT_THAT(exit.text, HasSubstr("--drain_timeout: expected a time"));

  EXPECT_THAT(
      std::get<EarlyExit>(Parse({"--policy_file=/absent", "--check_config"}))
          .text,
      HasSubstr("--policy_file: cannot read /absent"));
  EXPECT_THAT(std::get<EarlyExit>(Parse({"--tls_cert=/absent", "--tls_key=/k",
                                         "--check_config"}))
                  .text,
              HasSubstr("--tls_cert: cannot read /absent"));
  EXPECT_THAT(
      std::get<EarlyExit>(Parse({"--etcd=https://e:1", "--server_name=s",
                                 "--etcd_tls_ca=/absent", "--check_config"}))
          .text,
      HasSubstr("--etcd_tls_ca: cannot read /absent"));

  const std::string unknown = ConfigFile("lisen = 1\n");
  EXPECT_THAT(std::get<EarlyExit>(Parse({unknown.c_str()})).text,
              HasSubstr("--config: there is no flag lisen"));
}

struct WrongFlag {
  const char* flag;  // or several, with spaces between them
  const char* message;
};

void PrintTo(const WrongFlag& wrong, std::ostream* stream) {
  *stream << wrong.flag;
}

class WrongFlagTest : public ::testing::TestWithParam<WrongFlag> {};

TEST_P(WrongFlagTest, IsOneClearLineAndCode2) {
  std::vector<const char*> flags;
  const std::vector<std::string> words = absl::StrSplit(GetParam().flag, ' ');
  for (const std::string& word : words) flags.push_back(word.c_str());

  const auto exit = std::get<EarlyExit>(Parse(flags));

  EXPECT_EQ(exit.code, 2);
  EXPECT_THAT(exit.text, AllOf(StartsWith("tensorkv-server: "),
                               HasSubstr(GetParam().message)));
  EXPECT_EQ(exit.text.find('\n'), exit.text.size() - 1);
}

#define IN_CLUSTER "--etcd=127.0.0.1:1 --server_name=s "
#define IN_TLS_CLUSTER "--etcd=https://e:1 --server_name=s "

INSTANTIATE_TEST_SUITE_P(
    Flags, WrongFlagTest,
    ::testing::Values(
        WrongFlag{"--nonsense", "--nonsense"}, WrongFlag{"extra", "extra"},
        WrongFlag{"--listen=0.0.0.0:1", "--listen: 0.0.0.0:1 can be reached"},
        WrongFlag{"--listen=7363", "--listen: expected host:port"},
        WrongFlag{"--metrics_listen=x:1", "--metrics_listen: expected"},
        WrongFlag{"--metrics_listen=0.0.0.0:1", "--insecure"},
        WrongFlag{"--listen=", "--listen: expected host:port"},
        WrongFlag{"--budget=8XB", "--budget: expected bytes"},
        WrongFlag{"--budget=0", "--budget: expected more than 0"},
        WrongFlag{"--budget=1", "--budget: expected at least 1048576 bytes"},
        WrongFlag{"--device_budget=1GiB", "--device_budget: expected a GPU"},
        WrongFlag{"--server_name=a", "--etcd: expected one"},
        WrongFlag{"--cluster_checkpoints=/d", "--etcd: expected one"},
        WrongFlag{"--cluster_address=a:1", "--etcd: expected one"},
        WrongFlag{"--cluster_tls_ca=f", "--etcd: expected one"},
        WrongFlag{"--cluster_token_file=f", "--etcd: expected one"},
        WrongFlag{"--cluster_size=3", "--etcd: expected one"},
        WrongFlag{"--etcd_user=u", "--etcd: expected one"},
        WrongFlag{"--etcd_tls_ca=f", "--etcd: expected one"},
        WrongFlag{"--etcd=127.0.0.1:1", "--server_name: expected a name"},
        WrongFlag{"--etcd=a:1 --server_name=s",
                  "--etcd: a:1 is asked in plain text"},
        WrongFlag{"--etcd=https://a:1,http://b:1 --server_name=s",
                  "--etcd: expected https:// alone"},
        WrongFlag{"--etcd=http://a:1 --etcd_tls_ca=f --server_name=s",
                  "--etcd: expected https:// alone"},
        WrongFlag{"--etcd=https://a --server_name=s",
                  "--etcd: expected host:port"},
        WrongFlag{IN_CLUSTER "--etcd_tls_key=f", "--etcd_tls_cert: expected"},
        WrongFlag{IN_CLUSTER "--etcd_user=u --etcd_password_file=f",
                  "--etcd_user: expected https://"},
        WrongFlag{IN_TLS_CLUSTER "--etcd_tls_cert=f",
                  "--etcd_tls_key: expected"},
        WrongFlag{IN_TLS_CLUSTER "--etcd_user=u",
                  "--etcd_password_file: expected one"},
        WrongFlag{IN_TLS_CLUSTER "--etcd_password_file=f",
                  "--etcd_user: expected one"},
        WrongFlag{IN_CLUSTER "--cluster=a/b", "--cluster: expected"},
        WrongFlag{IN_CLUSTER "--server_name=s\xff", "--server_name: expected"},
        WrongFlag{IN_CLUSTER "--cluster_address=h\xff"
                             ":1",
                  "--cluster_address: expected"},
        WrongFlag{IN_CLUSTER "--cluster_size=0", "--cluster_size: expected"},
        WrongFlag{IN_CLUSTER "--cluster_partitions=1 --cluster_size=2",
                  "--cluster_partitions: expected"},
        WrongFlag{IN_CLUSTER "--cluster_weight=0", "--cluster_weight: expect"},
        WrongFlag{IN_CLUSTER "--cluster_lease=1s", "--cluster_lease: expected"},
        WrongFlag{IN_CLUSTER "--cluster_lease=2500ms", "--cluster_lease: exp"},
        WrongFlag{IN_CLUSTER "--cluster_lease=601s", "--cluster_lease: expect"},
        WrongFlag{IN_CLUSTER
                  "--cluster_lost_after=10s --cluster_checkpoints=/d",
                  "--cluster_lost_after: expected"},
        WrongFlag{IN_CLUSTER "--cluster_lost_after=5m",
                  "--cluster_lost_after: expected"},
        WrongFlag{IN_CLUSTER "--cluster_tls_ca=f", "--cluster_tls_ca: expect"},
        WrongFlag{IN_CLUSTER "--cluster_token_file=f",
                  "--cluster_token_file: expected"},
        WrongFlag{"--metrics_tls", "--tls_cert: expected"},
        WrongFlag{"--tls_cert=c", "--tls_key: expected"},
        WrongFlag{"--tls_key=k", "--tls_cert: expected"},
        WrongFlag{"--tls_client_ca=a", "--tls_cert: expected"},
        WrongFlag{"--listen=unix:/s --tls_cert=c --tls_key=k",
                  "--tls_cert: expected"},
        WrongFlag{"--tls_cert=c --tls_key=k --tls_client_auth=optional",
                  "--tls_client_ca: expected"},
        WrongFlag{"--token_file=t", "--policy_file: expected"},
        WrongFlag{"--threads=many", "--threads"},
        WrongFlag{"--threads=-1", "--threads: expected 0 to"},
        WrongFlag{"--max_message_bytes=1023", "--max_message_bytes: expected"},
        WrongFlag{"--max_message_bytes=2GiB", "--max_message_bytes: expected"},
        WrongFlag{"--max_streams=-1", "--max_streams"},
        WrongFlag{"--max_streams=0", "--max_streams: expected"},
        WrongFlag{"--drain_timeout=soon", "--drain_timeout: expected a time"},
        WrongFlag{"--drain_timeout=-5s", "--drain_timeout: expected a time"},
        WrongFlag{"--drain_timeout=inf", "--drain_timeout: expected a time"},
        WrongFlag{"--idle_memory=soon", "--idle_memory: expected a time"},
        WrongFlag{"--idle_memory=500ms", "--idle_memory: expected at least 1s"},
        WrongFlag{"--device=abacus", "--device: expected auto, cpu, cuda"},
        WrongFlag{"--device=cuda:0,1", "--device: expected one GPU"},
        WrongFlag{"--config=/nonexistent", "/nonexistent was not readable"},
        WrongFlag{"--status_page=maybe", "--status_page"},
        WrongFlag{"--slow_call=soon", "--slow_call: expected a time"},
        WrongFlag{"--log_format=xml", "--log_format"},
        WrongFlag{"--log_level=loud", "--log_level"}));

}  // namespace server_flags_test
}  // namespace tensorkv
