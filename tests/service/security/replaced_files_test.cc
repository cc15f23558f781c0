// Servers and clients whose files change while they run.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/internal/transfer/grpc_connection.h"
#include "contract/requests.h"
#include "gmock/gmock.h"
#include "service/server/server_files.h"
#include "tests/service/http_get.h"
#include "tests/service/security/secure_server.h"

namespace tensorkv {
namespace secure_server_test {

using ::testing::HasSubstr;
using testing::HttpGet;
using ::testing::Not;
using testing::StatusIs;

constexpr char kLetsAllRead[] = R"(
grants { callers: "*" namespaces: "team" role: READ }
)";

// Returns once that is so; the test's own time limit bounds it.
void Await(const std::function<bool()>& is_so) {
  while (!is_so()) std::this_thread::yield();
}

class ReplacedFilesTest : public SecureServerTest {
 protected:
  ReplacedFilesTest() {
    Install(authority_.Issue("c", "URI:spiffe://cluster/first"), "client");
    Write("token", "reader");
  }

  std::unique_ptr<Server> Start(ServerOptions options) {
    options.metrics_listen = "127.0.0.1:0";
    return Server::Create(options).value();
  }
  static std::string Ready(const Server& server) {
    const testing::HttpResponse response =
        HttpGet(server.metrics_port(), "/readyz");
    EXPECT_EQ(response.code, 200);
    return response.body;
  }
  static std::string Metrics(const Server& server) {
    return HttpGet(server.metrics_port(), "/metrics").body;
  }
  static void AwaitWrong(const Server& server, const std::string& option) {
    Await([&] {
      return absl::StrContains(Ready(server),
                               absl::StrCat("files: ", option, ": "));
    });
    EXPECT_THAT(Ready(server), Not(HasSubstr("/"))) << "anybody may read it";
    EXPECT_THAT(Metrics(server), HasSubstr("tensorkv_files_wrong 1\n"));
  }
  static void AwaitRight(const Server& server) {
    Await([&] { return Ready(server) == "ready\n"; });
  }

  std::unique_ptr<Connection> Client(const Server& server,
                                     const Credentials& credentials) const {
    return GrpcConnection::Create({.target = server.address(),
                                   .credentials = credentials,
                                   .watch_period = absl::Milliseconds(20)})
        .value();
  }
  // What a pull comes to.
  static absl::Status Pull(Connection& client) {
    PullRequest request;
    request.name_space = kNamespace;
    request.entries.push_back({.key = "k"});
    return client.Call(request).status();
  }
  // Returns once the server says that the client is that one.
  static void AwaitName(Connection& client, const std::string& name) {
    Await([&] {
      const absl::Status status = Pull(client);
      EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
      return absl::StrContains(status.message(), absl::StrCat(name, "\""));
    });
  }
};

TEST_F(ReplacedFilesTest, WrongCertificatesOfAServerAreReportedAndNotTaken) {
  const auto server = Start(WithClientCertificates());
  const Identity good = authority_.Issue("server", kServerNames);
  const Identity other = stranger_.Issue("server", kServerNames);
  const Identity old = authority_.Issue("server", kServerNames, true);
  const auto connects = [&] {
    return Call(Connect(server->address(), WithCertificate("client")),
                Method::kStat)
               .code() == absl::StatusCode::kPermissionDenied;
  };
  struct Row {
    const char* option;
    std::function<void()> damage;
  };
  for (const Row& row : {
           Row{"tls_cert", [&] { Write("server.crt", ""); }},
           {"tls_key", [&] { Write("server.key", ""); }},
           {"tls_cert",
            [&] { Write("server.crt", good.certificate.substr(0, 300)); }},
           {"tls_key", [&] { Write("server.key", good.key.substr(0, 100)); }},
           {"tls_key", [&] { Write("server.key", other.key); }},
           {"tls_key", [&] { Write("server.key", "garbage"); }},
           {"tls_cert", [&] { Install(old, "server"); }},
           {"tls_cert", [&] { std::remove(Path("server.crt").c_str()); }},
       }) {
    Install(good, "server");
    AwaitRight(*server);

    row.damage();

    AwaitWrong(*server, row.option);
    EXPECT_TRUE(connects());
  }

  Install(good, "server");
  AwaitRight(*server);
  Write("ca.crt", "");
  AwaitWrong(*server, "tls_client_ca");
  Write("ca.crt", authority_.certificate());
  AwaitRight(*server);
  EXPECT_TRUE(connects());
  EXPECT_THAT(Metrics(*server), HasSubstr("tensorkv_files_wrong 0\n"));
}

TEST_F(ReplacedFilesTest, CallsGoOnWhileCertificatesAreReplaced) {
  const auto server = Start(WithClientCertificates());
  const auto client = Client(*server, WithCertificate("client"));
  std::atomic<bool> is_over = false;
  std::thread calls([&] {
    while (!is_over) {
      ASSERT_THAT(Pull(*client), StatusIs(absl::StatusCode::kPermissionDenied));
    }
  });

  for (int i = 0; i < 5; ++i) {
    const std::string name = absl::StrCat("spiffe://cluster/", i);
    Write("server.crt", "");
    Write("client.key", "");
    AwaitWrong(*server, "tls_cert");
    Install(authority_.Issue("server", kServerNames), "server");
    Install(authority_.Issue("c", "URI:" + name), "client");
    AwaitRight(*server);
    AwaitName(*client, name);
  }

  is_over = true;
  calls.join();
}

TEST_F(ReplacedFilesTest, AClientKeepsWhatIsRightAndSaysWhatIsWrong) {
  const auto server = Start(WithClientCertificates());
  const auto client = Client(*server, WithCertificate("client"));
  AwaitName(*client, "spiffe://cluster/first");

  Write("client.crt", "");
  ASSERT_TRUE(absl::IsPermissionDenied(Pull(*client)));
  // Another client begins with what is there.
  EXPECT_THAT(
      GrpcConnection::Create({.target = server->address(),
                              .credentials = WithCertificate("client")}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tls_cert: ")));
  server->Shutdown(absl::ZeroDuration());

  Await([&] {
    const absl::Status status = Pull(*client);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    return absl::StrContains(status.message(), "tls_cert: expected a PEM");
  });
}

TEST_F(ReplacedFilesTest, TokensOfClientsAndServersAreReplacedWithoutAWord) {
  const auto server = Start(Options());
  const auto client =
      Client(*server, {.tls_ca = Path("ca.crt"), .token_file = Path("token")});
  ASSERT_THAT(Pull(*client), StatusIs(absl::StatusCode::kNotFound));
  // Nobody has the old one any more.
  Write("tokens", TokenLine("next"));
  Write("policy", kLetsAllRead);
  Await([&] { return absl::IsUnauthenticated(Pull(*client)); });

  Write("token", "");
  Await([&] {
    return absl::StrContains(Pull(*client).message(),
                             "token_file: expected one token");
  });
  Write("token", "next");

  Await([&] { return absl::IsNotFound(Pull(*client)); });
}

TEST_F(ReplacedFilesTest, RulesOfAccessCountWithoutASignal) {
  const auto server = Start(Options());
  const auto channel = Connect(server->address(), {.tls_ca = Path("ca.crt")});
  ASSERT_TRUE(IsRefusal(Call(channel, Method::kPush, "reader")));

  Write("policy", R"(grants { callers: "*" namespaces: "team" role: PUSH })");
  Await([&] { return !IsRefusal(Call(channel, Method::kPush, "reader")); });

  for (const char* text : {"", " \n", "nonsense", "grants {"}) {
    Write("policy", text);
    AwaitWrong(*server, "policy_file");
    EXPECT_FALSE(IsRefusal(Call(channel, Method::kPush, "reader"))) << text;
    Write("policy", R"(grants { callers: "*" namespaces: "team" role: PUSH })");
    AwaitRight(*server);
  }
}

// A server that has run for longer than its first certificate.
TEST_F(ReplacedFilesTest, ServersProveAnewWhoTheyAreToOthers) {
  const auto server = Start(WithClientCertificates());
  ServerOptions options = WithClientCertificates();
  Install(authority_.Issue("s", "URI:spiffe://cluster/before"), "peer");
  options.tls.cert = Path("peer.crt");
  options.tls.key = Path("peer.key");
  options.cluster = {.etcd = {"127.0.0.1:1"},
                     .server_name = "s",
                     .tls_ca = Path("ca.crt"),
                     .token_file = ""};
  std::atomic<int> num_wrong = 0;
  ASSERT_OK_AND_ASSIGN(const auto files,
                       ServerFiles::Create(options, [&](const auto& line) {
                         if (absl::StrContains(line, "before stays"))
                           ++num_wrong;
                       }));
  const auto name_is = [&](const std::string& name) {
    return absl::StrContains(
        Call(files->ChannelTo(server->address()), Method::kStat).message(),
        absl::StrCat(name, "\" lacks"));
  };
  const auto channel = files->ChannelTo(server->address());
  EXPECT_TRUE(name_is("spiffe://cluster/before"));
  EXPECT_EQ(files->ChannelTo(server->address()), channel);

  Write("peer.crt", "");
  Await([&] { return !files->status().ok(); });
  EXPECT_TRUE(name_is("spiffe://cluster/before"));
  Install(authority_.Issue("s", "URI:spiffe://cluster/after"), "peer");
  Await([&] { return name_is("spiffe://cluster/after"); });
  Await([&] { return files->status().ok(); });

  EXPECT_NE(files->ChannelTo(server->address()), channel);
  EXPECT_EQ(num_wrong, 1) << "the same for its port and for its connections";
}

// Etcd as a server that needs certificates of its clients.
TEST_F(ReplacedFilesTest, FilesForEtcdCountAsTheyAreReplaced) {
  const auto server = Start(WithClientCertificates());
  ServerOptions options = Options();
  options.cluster = {.etcd = {server->address()},
                     .etcd_tls = true,
                     .etcd_tls_ca = Path("ca.crt"),
                     .etcd_tls_cert = Path("client.crt"),
                     .etcd_tls_key = Path("client.key"),
                     .etcd_user = "u",
                     .etcd_password_file = Path("token"),
                     .server_name = "s"};
  ASSERT_OK_AND_ASSIGN(const auto files,
                       ServerFiles::Create(options, [](const auto&) {}));
  Channels& etcd = *files->etcd();
  const auto name_is = [&](const std::string& name) {
    return absl::StrContains(
        Call(etcd.ChannelTo(server->address()), Method::kStat).message(),
        absl::StrCat(name, "\" lacks"));
  };
  EXPECT_TRUE(name_is("spiffe://cluster/first")) << "no token was sent";
  EXPECT_EQ(etcd.credentials().secret(), "reader");

  Write("token", "");
  Write("client.key", "");
  Await([&] { return files->wrong_options() == "etcd_tls_key"; });
  EXPECT_TRUE(name_is("spiffe://cluster/first"));
  EXPECT_EQ(etcd.credentials().secret(), "reader");
  Install(authority_.Issue("s", "URI:spiffe://cluster/after"), "client");
  Write("token", "another");
  Await([&] { return etcd.credentials().secret() == "another"; });

  EXPECT_TRUE(name_is("spiffe://cluster/after"));
}

TEST_F(ReplacedFilesTest, EtcdOverTlsIsTrustedByTheSystemsAuthorities) {
  const auto server = Start(Options());
  ServerOptions options = Options();
  options.cluster = {
      .etcd = {server->address()}, .etcd_tls = true, .server_name = "s"};
  ASSERT_OK_AND_ASSIGN(const auto files,
                       ServerFiles::Create(options, [](const auto&) {}));

  EXPECT_THAT(Call(files->etcd()->ChannelTo(server->address()), Method::kStat),
              StatusIs(absl::StatusCode::kUnavailable))
      << "its authority is none of the system's";
}

}  // namespace secure_server_test
}  // namespace tensorkv
