#include "tests/service/security/secure_server.h"

#include <unistd.h>

#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "service/rpc/peer_credentials.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"
#include "tests/testing/reason_matchers.h"

namespace tensorkv {
namespace secure_server_test {

using ::testing::HasSubstr;
using testing::StatusIs;

// What each method takes, written down anew: w(atch), r(ead), p(ush), l(ease),
// (p)u(blish) or a(dmin) in the namespace, s: any right anywhere, S: an admin's
// for the whole server.
const std::map<std::string, char>& Table() {
  static const auto* const table =
      new std::map<std::string, char>{{"Init", 'p'},
                                      {"Push", 'p'},
                                      {"Pull", 'r'},
                                      {"PushPull", 'p'},
                                      {"PushRows", 'p'},
                                      {"PullRows", 'r'},
                                      {"SetState", 'p'},
                                      {"GetState", 'r'},
                                      {"Delete", 'a'},
                                      {"List", 'r'},
                                      {"Stat", 'r'},
                                      {"Watch", 'w'},
                                      {"CreateNamespace", 'a'},
                                      {"SetRule", 'a'},
                                      {"UnsetRule", 'a'},
                                      {"Join", 'p'},
                                      {"SetHyperparameters", 'a'},
                                      {"KeepAlive", 'p'},
                                      {"DescribeNamespace", 'r'},
                                      {"Leave", 'p'},
                                      {"ListNamespaces", 's'},
                                      {"Barrier", 'p'},
                                      {"DeleteNamespace", 'a'},
                                      {"SaveCheckpoint", 'S'},
                                      {"ListCheckpoints", 'S'},
                                      {"InitStream", 'p'},
                                      {"DeleteCheckpoint", 'S'},
                                      {"PushStream", 'p'},
                                      {"VerifyCheckpoint", 'S'},
                                      {"PullStream", 'r'},
                                      {"PushPullStream", 'p'},
                                      {"DescribeServer", 's'},
                                      {"DescribeCluster", 's'},
                                      {"ResizeCluster", 'S'},
                                      {"BeginMove", 'S'},
                                      {"SendMovePart", 'S'},
                                      {"CommitMove", 'S'},
                                      {"CheckShares", 'S'},
                                      {"FindShares", 'S'},
                                      {"AnnounceRounds", 'S'},
                                      {"BeginSums", 'S'},
                                      {"RunSums", 'S'},
                                      {"DeliverRanges", 'S'},
                                      {"Ping", 'S'},
                                      {"RestoreCheckpoint", 'S'},
                                      {"UpdateNamespace", 'a'},
                                      {"SetMultipliers", 'a'},
                                      {"UnsetMultipliers", 'a'},
                                      {"CreateSnapshot", 'u'},
                                      {"ListSnapshots", 'r'},
                                      {"DescribeSnapshot", 'r'},
                                      {"DescribeSteps", 'r'},
                                      {"DeleteSnapshot", 'u'},
                                      {"LeaseSnapshot", 'l'}};
  return *table;
}

TEST_F(SecureServerTest, EachMethodTakesItsRight) {
  Start(Options());
  // By caller, what it may call.
  const std::map<std::string, std::string> rights = {{"", ""},
                                                     {"elsewhere", "s"},
                                                     {"watcher", "sw"},
                                                     {"reader", "swr"},
                                                     {"leaser", "swrl"},
                                                     {"pusher", "swrp"},
                                                     {"publisher", "swrlu"},
                                                     {"trainer", "swrplu"},
                                                     {"admin", "swrplua"},
                                                     {"root", "swrpluaS"}};

  ASSERT_EQ(Table().size(), kNumMethods);
  for (const Method method : kAllMethods) {
    const char needed = Table().at(std::string(NameOf(method)));
    for (const auto& [caller, right] : rights) {
      const absl::Status status = Call(channel_, method, caller);
      EXPECT_EQ(IsRefusal(status), !absl::StrContains(right, needed))
          << NameOf(method) << " by " << caller << ": " << status;
      if (!IsRefusal(status)) continue;
      EXPECT_EQ(status.code(), caller.empty()
                                   ? absl::StatusCode::kUnauthenticated
                                   : absl::StatusCode::kPermissionDenied);
    }
  }
}

TEST_F(SecureServerTest, PublishingTakesARightBesidesThatToPush) {
  Start(Options());
  EXPECT_OK(Call(channel_, Method::kCreateNamespace, "admin"));
  v1::PushRequest push;
  push.set_namespace_(kNamespace);
  const auto pushed = [&](const std::string& caller) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + caller);
    v1::PushResponse response;
    return stub_->Push(&context, push, &response).error_code();
  };

  EXPECT_EQ(pushed("pusher"), grpc::StatusCode::OK);
  push.mutable_publish_as()->set_series("s");
  EXPECT_EQ(pushed("pusher"), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(pushed("publisher"), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(pushed("trainer"), grpc::StatusCode::OK);
}

TEST_F(SecureServerTest, RefusedStreamsTakeNoPlaceOfOthers) {
  ServerOptions options = Options();
  options.max_open_streams = 1;
  Start(options);
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer pusher");
  v1::PushResponse reply;
  const auto open = stub_->PushStream(&context, &reply);
  // Others are refused once the server has seen it.
  int num_calls = 0;
  while (!absl::IsResourceExhausted(
             Call(channel_, Method::kPushStream, "pusher")) &&
         ++num_calls < 10'000) {
  }
  ASSERT_LT(num_calls, 10'000);

  EXPECT_THAT(Call(channel_, Method::kPushStream),
              StatusIs(absl::StatusCode::kUnauthenticated));

  context.TryCancel();
  open->Finish();
}

// Makes the call of a request that names no worker.
template <typename Request, typename Response>
grpc::StatusCode CodeWithoutWorker(
    testing::Stubs& stub,
    grpc::Status (testing::Stubs::*call)(grpc::ClientContext*, const Request&,
                                         Response*),
    const std::string& caller) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + caller);
  Request request;
  request.set_namespace_(kNamespace);
  Response response;
  return (stub.*call)(&context, request, &response).error_code();
}

TEST_F(SecureServerTest, RightsComeBeforeTheWorkerOfACall) {
  Start(Options());
  EXPECT_OK(Call(channel_, Method::kCreateNamespace, "admin"));

  for (const auto& [caller, code] :
       {std::pair("reader", grpc::StatusCode::PERMISSION_DENIED),
        std::pair("pusher", grpc::StatusCode::INVALID_ARGUMENT)}) {
    EXPECT_EQ(CodeWithoutWorker(*stub_, &testing::Stubs::KeepAlive, caller),
              code);
    EXPECT_EQ(CodeWithoutWorker(*stub_, &testing::Stubs::Leave, caller), code);
  }
}

TEST(PeerHostOfTest, OfIpv6AddressesTheNetworkCounts) {
  EXPECT_EQ(PeerHostOf("ipv4:10.0.0.7:4711"), "10.0.0.7");
  EXPECT_EQ(PeerHostOf("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:4711"),
            "2001:db8:1:2::");
  EXPECT_EQ(PeerHostOf("ipv6:[2001:db8:1:2::7]:4712"), "2001:db8:1:2::");
  EXPECT_EQ(PeerHostOf("ipv6:%5Bfe80::1%25eth0%5D:4711"), "fe80::");
  EXPECT_EQ(PeerHostOf("unix:"), "unix");
}

// Has the log for as long as it lives.
class CapturedLog {
 public:
  explicit CapturedLog(spdlog::level::level_enum level) {
    const auto logger = std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_));
    logger->set_level(level);
    spdlog::set_default_logger(logger);
  }
  ~CapturedLog() { spdlog::set_default_logger(former_); }

  std::string str() const { return lines_.str(); }

 private:
  const std::shared_ptr<spdlog::logger> former_ = spdlog::default_logger();
  std::ostringstream lines_;
};

TEST_F(SecureServerTest, AuditsWhateverTheLevelOfTheLog) {
  const CapturedLog log(spdlog::level::warn);
  Start(Options());

  EXPECT_OK(Call(channel_, Method::kCreateNamespace, "admin"));
  server_.reset();

  EXPECT_THAT(log.str(), HasSubstr(absl::StrCat(
                             "audit: caller=\"token:admin\" "
                             "method=CreateNamespace namespace=\"team\" "
                             "outcome=OK trace=",
                             kTrace)));
}

TEST_F(SecureServerTest, TellsWhichCallsWereSlow) {
  const CapturedLog log(spdlog::level::info);
  ServerOptions options = Options();
  options.slow_call = absl::Nanoseconds(1);
  Start(options);

  EXPECT_OK(Call(channel_, Method::kCreateNamespace, "admin"));
  Call(channel_, Method::kInitStream, "pusher").IgnoreError();
  server_.reset();

  for (const char* line :
       {"slow call: method=CreateNamespace caller=\"token:admin\" outcome=OK ",
        "slow call: method=InitStream caller=\"token:pusher\" outcome="}) {
    EXPECT_THAT(log.str(), HasSubstr(line));
  }
  EXPECT_THAT(log.str(), HasSubstr(absl::StrCat(
                             " namespace=\"team\" trace=", kTrace, "\n")));
}

TEST_F(SecureServerTest, TicketIsOfWhoeverHasReadTheValues) {
  Start(Options());
  ASSERT_OK(Call(channel_, Method::kCreateNamespace, "admin"));
  ASSERT_OK(Call(channel_, Method::kInit, "pusher"));
  v1::PullRequest pull;
  pull.set_namespace_(kNamespace);
  pull.set_ticket_from_bytes(1);
  pull.add_entries()->set_key("k");
  v1::PullResponse reply;
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer reader");
  ASSERT_TRUE(stub_->Pull(&context, pull, &reply).ok());
  v1::PullStreamRequest request;
  request.set_ticket(reply.ticket().id());
  const auto outcome = [&](absl::string_view token) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
    const auto stream = stub_->PullStream(&context, request);
    v1::PullChunk chunk;
    while (stream->Read(&chunk)) chunk.Clear();
    return FromGrpcStatus(stream->Finish());
  };

  for (const char* other : {"pusher", "elsewhere", "root"}) {
    EXPECT_EQ(ReasonOf(outcome(other)), Reason::kNoTicket) << other;
  }
  EXPECT_OK(outcome("reader"));
}

TEST_F(SecureServerTest, ListsNamespacesThatTheCallerMayRead) {
  Start(Options());
  ASSERT_OK(Call(channel_, Method::kCreateNamespace, "admin"));
  const std::map<std::string, int> counts = {
      {"root", 2}, {"reader", 1}, {"elsewhere", 0}};
  for (const auto& [caller, count] : counts) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + caller);
    v1::ListNamespacesResponse reply;
    ASSERT_OK(FromGrpcStatus(stub_->ListNamespaces(&context, {}, &reply)));
    EXPECT_EQ(reply.namespaces_size(), count) << caller;
  }
}

TEST_F(SecureServerTest, TakesConnectionsThatProveWhoTheyAre) {
  ASSERT_OK_AND_ASSIGN(const auto server,
                       Server::Create(WithClientCertificates()));
  Write("stranger.crt", stranger_.certificate());
  Install(authority_.Issue("c", "URI:spiffe://cluster/trainer"), "trainer");
  Install(authority_.Issue("c", "URI:spiffe://cluster/trainer", true), "old");
  Install(stranger_.Issue("c", "URI:spiffe://cluster/trainer"), "false");
  Credentials wrong_authority = WithCertificate("trainer");
  wrong_authority.tls_ca = Path("stranger.crt");
  Credentials wrong_name = WithCertificate("trainer");
  wrong_name.tls_server_name = "other.test";
  Credentials right_name = WithCertificate("trainer");
  right_name.tls_server_name = "tensorkv.test";
  struct Row {
    const char* name;
    Credentials credentials;
    bool is_taken = false;
  };
  for (const Row& row : {
           Row{"right", WithCertificate("trainer"), true},
           {"right, by another name of the server", right_name, true},
           {"no certificate", {.tls_ca = Path("ca.crt")}},
           {"expired", WithCertificate("old")},
           {"of another authority", WithCertificate("false")},
           {"server of another authority", wrong_authority},
           {"server of another name", wrong_name},
           {"plain text", {}},
       }) {
    const absl::Status status =
        Call(Connect(server->address(), row.credentials),
             Method::kDescribeNamespace);
    EXPECT_EQ(status.code(), row.is_taken ? absl::StatusCode::kNotFound
                                          : absl::StatusCode::kUnavailable)
        << row.name << ": " << status;
  }
}

TEST_F(SecureServerTest, CertificatesNameTheirOwners) {
  ASSERT_OK_AND_ASSIGN(const auto server,
                       Server::Create(WithClientCertificates()));
  struct Row {
    const char* names;
    const char* identity;
  };
  for (const Row& row : {
           Row{"", "cn:common"},
           {"DNS:a.test,DNS:b.test", "dns:a.test"},
           {"email:a@b.test", "san:a@b.test"},
           {"DNS:a.test,URI:spiffe://cluster/a", "spiffe://cluster/a"},
       }) {
    Install(authority_.Issue("common", row.names), "client");
    EXPECT_THAT(
        Call(Connect(server->address(), WithCertificate("client")),
             Method::kStat),
        StatusIs(absl::StatusCode::kPermissionDenied,
                 HasSubstr(absl::StrCat("\"", row.identity, "\" lacks"))));
  }
}

TEST_F(SecureServerTest, TokensStandInForOptionalCertificates) {
  ServerOptions options = WithClientCertificates();
  options.tls.client_cert_is_optional = true;
  ASSERT_OK_AND_ASSIGN(const auto server, Server::Create(options));
  Install(authority_.Issue("c", "URI:spiffe://cluster/other"), "other");
  Write("token", "reader\n");
  const Credentials bearer = {.tls_ca = Path("ca.crt"),
                              .token_file = Path("token")};

  EXPECT_FALSE(
      IsRefusal(Call(Connect(server->address(), bearer), Method::kPull)));
  const auto channel = Connect(server->address(), WithCertificate("other"));
  EXPECT_TRUE(IsRefusal(Call(channel, Method::kPull)));
  EXPECT_FALSE(IsRefusal(Call(channel, Method::kPull, "reader")));
  EXPECT_THAT(Call(channel, Method::kPull, "nobody's"),
              StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST_F(SecureServerTest, TokensInPlainTextAreRefused) {
  ServerOptions options = Options();
  options.tls = {};
  ASSERT_OK_AND_ASSIGN(const auto server, Server::Create(options));

  const absl::Status status =
      Call(Connect(server->address(), {}), Method::kPull, "root");

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnauthenticated,
                               HasSubstr("plain text")));
  EXPECT_THAT(status, testing::HasReason(Reason::kUnauthenticated));
}

TEST_F(SecureServerTest, UnixSocketsAreOneCallerAndTakeTokens) {
  ServerOptions options = Options();
  options.tls = {};
  // A path in a test's folder may be too long for a socket.
  options.listen = absl::StrCat("unix-abstract:secure_server_test.", getpid());
  ASSERT_OK_AND_ASSIGN(const auto server, Server::Create(options));
  Write("token", "reader");

  EXPECT_THAT(
      Call(Connect(options.listen, {}), Method::kStat),
      StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("\"unix\"")));
  EXPECT_FALSE(IsRefusal(Call(
      Connect(options.listen, {.token_file = Path("token")}), Method::kStat)));
}

TEST_F(SecureServerTest, PolicySaysWhoMayConnectByAUnixSocket) {
  for (const uid_t user : {getuid(), getuid() + 1}) {
    Write("policy",
          absl::StrCat("unix_users: ", user, " grants { callers: \"unix\" ",
                       "namespaces: \"*\" role: READ }"));
    ServerOptions options = Options();
    options.tls = {};
    options.listen = absl::StrCat("unix-abstract:policy_test.", getpid());
    ASSERT_OK_AND_ASSIGN(const auto server, Server::Create(options));

    EXPECT_EQ(
        absl::IsUnavailable(Call(Connect(options.listen, {}), Method::kStat)),
        user != getuid());
  }
}

TEST_F(SecureServerTest, ReplacedCertificatesCountForNewConnections) {
  ASSERT_OK_AND_ASSIGN(const auto server, Server::Create(Options()));
  const auto before = Connect(server->address(), {.tls_ca = Path("ca.crt")});
  ASSERT_FALSE(IsRefusal(Call(before, Method::kStat, "reader")));
  Write("new_ca.crt", stranger_.certificate());
  const auto after = Connect(server->address(), {.tls_ca = Path("new_ca.crt")});
  EXPECT_THAT(Call(after, Method::kStat, "reader"),
              StatusIs(absl::StatusCode::kUnavailable));

  Install(stranger_.Issue("server", kServerNames), "server");

  EXPECT_THAT(Call(after, Method::kStat, "reader", /*wait_for_ready=*/true),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_FALSE(IsRefusal(Call(before, Method::kStat, "reader")));
}

TEST_F(SecureServerTest, WrongFilesKeepItFromStarting) {
  Install(stranger_.Issue("other", ""), "other");
  Write("nothing", "");
  struct Row {
    const char* option;
    std::string ServerOptions::*access = nullptr;
    std::string TlsOptions::*tls = nullptr;
    std::string ClusterOptions::*cluster = nullptr;
    const char* file = "nothing";
  };
  for (const Row& row : {
           Row{.option = "tls_cert", .tls = &TlsOptions::cert},
           {.option = "tls_cert", .tls = &TlsOptions::cert, .file = "absent"},
           {.option = "tls_key", .tls = &TlsOptions::key},
           {.option = "tls_key", .tls = &TlsOptions::key, .file = "other.key"},
           {.option = "tls_client_ca", .tls = &TlsOptions::client_ca},
           {.option = "policy_file",
           .access = &ServerOptions::policy_file,
           .file = "tokens"},
           {.option = "token_file",
           .access = &ServerOptions::token_file,
           .file = "policy"},
           {.option = "cluster_tls_ca", .cluster = &ClusterOptions::tls_ca},
           {.option = "cluster_tls_ca",
           .cluster = &ClusterOptions::tls_ca,
           .file = "absent"},
           {.option = "cluster_token_file",
           .cluster = &ClusterOptions::token_file,
           .file = "absent"},
           {.option = "etcd_tls_ca", .cluster = &ClusterOptions::etcd_tls_ca},
           {.option = "etcd_tls_ca",
           .cluster = &ClusterOptions::etcd_tls_ca,
           .file = "absent"},
       }) {
    ServerOptions options = Options();
    ClusterOptions cluster = {
        .etcd = {"127.0.0.1:1"}, .etcd_tls = true, .server_name = "s"};
    if (row.cluster != nullptr) {
      cluster.*row.cluster = Path(row.file);
      options.cluster = cluster;
    } else {
      (row.tls != nullptr ? options.tls.*row.tls : options.*row.access) =
          Path(row.file);
    }
    EXPECT_THAT(Server::Create(options),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat(row.option, ": "))))
        << row.file;
  }
}

TEST_F(SecureServerTest, ClientsAreToldWhatIsWrongWithTheirCredentials) {
  Write("token", "two words");
  Install(authority_.Issue("c", ""), "client");
  struct Row {
    const char* option;
    Credentials credentials;
    const char* target = "127.0.0.1:1";
  };
  for (const Row& row : {
           Row{"tls_ca", {.tls_ca = Path("absent")}},
           {"tls_ca", {.tls_ca = Path("token")}},
           {"tls_ca", {.tls_server_name = "a"}},
           {"tls_ca", {.tls_ca = Path("ca.crt")}, "unix:/a"},
           {"tls_key",
            {.tls_ca = Path("ca.crt"), .tls_cert = Path("client.crt")}},
           {"token_file", {.token_file = Path("token")}},
           {"token_file", {.token_file = Path("token")}, "unix:/a"},
       }) {
    EXPECT_THAT(MakeChannelSecurity(row.credentials, row.target),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat(row.option, ": "))));
  }
}

}  // namespace secure_server_test
}  // namespace tensorkv
