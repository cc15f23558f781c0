#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/bearer_token.h"
#include "client/internal/channel_security.h"
#include "contract/grpc_status.h"
#include "contract/method.h"
#include "contract/reason.h"
#include "contract/retry_delay.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/rpc_method.h"
#include "grpcpp/support/sync_stream.h"
#include "gtest/gtest.h"
#include "service/rpc/peer_credentials.h"
#include "service/server/server.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"
#include "tensorkv/v1/service.grpc.pb.h"
#include "tests/testing/background.h"
#include "tests/testing/certificates.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace secure_server_test {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using testing::Authority;
using testing::Background;
using ::testing::HasSubstr;
using testing::Identity;
using testing::StatusIs;

constexpr char kServerNames[] = "DNS:tensorkv.test,IP:127.0.0.1";
constexpr char kNamespace[] = "team";

// A tensor of one element; in streams its bytes come later.
v1::Tensor OneElement(v1::DType dtype, const std::string& data,
                      bool is_stream) {
  v1::Tensor tensor;
  tensor.set_dtype(dtype);
  tensor.add_shape(1);
  if (!is_stream) tensor.set_data(data);
  return tensor;
}

// Gives the message, as far as it has such fields, what a call needs to be
// about one key of the namespace.
void Fill(Message& message, bool is_stream) {
  const auto& type = *message.GetDescriptor();
  const auto& reflection = *message.GetReflection();
  const auto set = [&](const char* name, const std::string& text) {
    const FieldDescriptor* field = type.FindFieldByName(name);
    if (field == nullptr) return;
    if (field->is_repeated()) {
      reflection.AddString(&message, field, text);
    } else {
      reflection.SetString(&message, field, text);
    }
  };
  set("namespace", kNamespace);
  set("keys", "k");
  set("key", "k");
  set("name", "n");
  set("worker_name", "w");
  const auto inner = [&](const char* name) -> Message* {
    const FieldDescriptor* field = type.FindFieldByName(name);
    if (field == nullptr) return nullptr;
    return field->is_repeated() ? reflection.AddMessage(&message, field)
                                : reflection.MutableMessage(&message, field);
  };
  if (Message* tensor = inner("tensor")) {
    tensor->CopyFrom(OneElement(v1::DTYPE_U8, "x", is_stream));
  }
  if (Message* rows = inner("rows")) {
    rows->CopyFrom(OneElement(v1::DTYPE_I64, std::string(8, '\0'), is_stream));
  }
  if (Message* worker = inner("worker")) {
    static_cast<v1::Worker*>(worker)->set_rank(0);
    static_cast<v1::Worker*>(worker)->set_epoch(1);
  }
  for (const char* name : {"manifest", "request", "push", "entries"}) {
    if (Message* message = inner(name)) Fill(*message, is_stream);
  }
}

grpc::ByteBuffer RequestOf(Method method) {
  const auto* type = v1::PushRequest::descriptor()
                         ->file()
                         ->pool()
                         ->FindServiceByName(std::string(kServiceName))
                         ->FindMethodByName(std::string(NameOf(method)))
                         ->input_type();
  const std::unique_ptr<Message> message(
      google::protobuf::MessageFactory::generated_factory()
          ->GetPrototype(type)
          ->New());
  Fill(*message, KindOf(method) != MethodKind::kUnary);
  const grpc::Slice slice(message->SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";

// Makes any call, as a stream: on the wire, all kinds are alike.
absl::Status Call(const std::shared_ptr<grpc::Channel>& channel, Method method,
                  const std::string& token = "", bool wait_for_ready = false) {
  grpc::ClientContext context;
  context.set_wait_for_ready(wait_for_ready);
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(60));
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  context.AddMetadata("traceparent", absl::StrCat("00-", kTrace, "-01"));
  const grpc::internal::RpcMethod path(
      PathOf(method), grpc::internal::RpcMethod::BIDI_STREAMING, channel);
  using Stream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
  const std::unique_ptr<Stream> stream(
      grpc::internal::ClientReaderWriterFactory<
          grpc::ByteBuffer, grpc::ByteBuffer>::Create(channel.get(), path,
                                                      &context));
  stream->WriteLast(RequestOf(method), grpc::WriteOptions());
  grpc::ByteBuffer reply;
  while (stream->Read(&reply)) reply.Clear();
  return FromGrpcStatus(stream->Finish());
}

bool IsRefusal(const absl::Status& status) {
  return ReasonOf(status) == Reason::kUnauthenticated ||
         ReasonOf(status) == Reason::kPermissionDenied;
}

std::string TokenLine(const std::string& name) {
  const TokenDigest digest = DigestOf(name);
  return absl::StrCat(
      name, " ",
      absl::BytesToHexString(
          {reinterpret_cast<const char*>(digest.data()), digest.size()}),
      "\n");
}

constexpr char kPolicy[] = R"(
grants { callers: "token:reader" namespaces: "team" role: READ }
grants { callers: "token:pusher" namespaces: "team" role: PUSH }
grants { callers: "token:admin" namespaces: "team" role: ADMIN }
grants { callers: "token:elsewhere" namespaces: "other" role: ADMIN }
grants { callers: "token:root" namespaces: "*" role: ADMIN }
grants { callers: "spiffe://cluster/trainer" namespaces: "*" role: READ }
)";

// A server with files of its own. Tokens are the names of their bearers.
class SecureServerTest : public ::testing::Test {
 protected:
  SecureServerTest() : directory_(::testing::TempDir() + "/secure.XXXXXX") {
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
    Install(authority_.Issue("server", kServerNames), "server");
    Write("ca.crt", authority_.certificate());
    Write("policy", kPolicy);
    std::string tokens;
    for (const char* name :
         {"reader", "pusher", "admin", "elsewhere", "root"}) {
      tokens += TokenLine(name);
    }
    Write("tokens", tokens);
  }

  std::string Path(const std::string& name) const {
    return absl::StrCat(directory_, "/", name);
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }
  void Install(const Identity& identity, const std::string& name) const {
    Write(name + ".crt", identity.certificate);
    Write(name + ".key", identity.key);
  }

  ServerOptions Options() const {
    return {.listen = "127.0.0.1:0",
            .tls = {.cert = Path("server.crt"),
                    .key = Path("server.key"),
                    .refresh = absl::Seconds(1)},
            .policy_file = Path("policy"),
            .token_file = Path("tokens"),
            .budget_bytes = 1 << 20,
            .num_threads = 1};
  }
  ServerOptions WithClientCertificates() const {
    ServerOptions options = Options();
    options.tls.client_ca = Path("ca.crt");
    return options;
  }

  static std::shared_ptr<grpc::Channel> Connect(
      const std::string& target, const Credentials& credentials) {
    auto security = MakeChannelSecurity(credentials, target);
    EXPECT_OK(security.status());
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    if (!security->server_name.empty()) {
      arguments.SetSslTargetNameOverride(security->server_name);
    }
    return grpc::CreateCustomChannel(target, security->credentials, arguments);
  }
  Credentials WithCertificate(const std::string& name) const {
    return {.tls_ca = Path("ca.crt"),
            .tls_cert = Path(name + ".crt"),
            .tls_key = Path(name + ".key")};
  }

  const Authority authority_{"authority"};
  const Authority stranger_{"stranger"};
  std::string directory_;
};

// What each method takes, written down anew: r(ead), p(ush) or a(dmin) in the
// namespace, s: any right anywhere, S: an admin's for the whole server.
const std::map<std::string, char>& Table() {
  static const auto* const table =
      new std::map<std::string, char>{{"Init", 'p'},
                                      {"Push", 'p'},
                                      {"Pull", 'r'},
                                      {"PushPull", 'p'},
                                      {"PushRows", 'p'},
                                      {"PullRows", 'r'},
                                      {"Delete", 'a'},
                                      {"List", 'r'},
                                      {"Stat", 'r'},
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
                                      {"RebalanceNamespace", 'a'},
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
                                      {"MovePartitions", 'S'},
                                      {"RestoreCheckpoint", 'S'}};
  return *table;
}

TEST_F(SecureServerTest, EachMethodTakesItsRight) {
  ASSERT_OK_AND_ASSIGN(const auto server, Server::Create(Options()));
  const auto channel = Connect(server->address(), {.tls_ca = Path("ca.crt")});
  // By caller, what it may call.
  const std::map<std::string, std::string> rights = {
      {"", ""},          {"elsewhere", "s"}, {"reader", "sr"},
      {"pusher", "srp"}, {"admin", "srpa"},  {"root", "srpaS"}};

  ASSERT_EQ(Table().size(), kNumMethods);
  for (const Method method : kAllMethods) {
    const char needed = Table().at(std::string(NameOf(method)));
    for (const auto& [caller, right] : rights) {
      const absl::Status status = Call(channel, method, caller);
      EXPECT_EQ(IsRefusal(status), !absl::StrContains(right, needed))
          << NameOf(method) << " by " << caller << ": " << status;
      if (!IsRefusal(status)) continue;
      EXPECT_EQ(status.code(), caller.empty()
                                   ? absl::StatusCode::kUnauthenticated
                                   : absl::StatusCode::kPermissionDenied);
    }
  }
}

TEST_F(SecureServerTest, RefusedStreamsTakeNoPlaceOfOthers) {
  ServerOptions options = Options();
  options.max_open_streams = 1;
  ASSERT_OK_AND_ASSIGN(const auto server, Server::Create(options));
  const auto channel = Connect(server->address(), {.tls_ca = Path("ca.crt")});
  const auto stub = v1::TensorKV::NewStub(channel);
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer pusher");
  v1::PushResponse reply;
  const auto open = stub->PushStream(&context, &reply);
  // Others are refused once the server has seen it.
  int num_calls = 0;
  while (!absl::IsResourceExhausted(
             Call(channel, Method::kPushStream, "pusher")) &&
         ++num_calls < 10'000) {
  }
  ASSERT_LT(num_calls, 10'000);

  EXPECT_THAT(Call(channel, Method::kPushStream),
              StatusIs(absl::StatusCode::kUnauthenticated));

  context.TryCancel();
  open->Finish();
}

// Pulls "k", for which it waits.
absl::Status PullOnceMade(v1::TensorKV::Stub& stub, Method method,
                          const char* token) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
  v1::PullStreamRequest request;
  v1::PullRequest& pull = *request.mutable_request();
  pull.set_namespace_(kNamespace);
  pull.set_wait_for_keys(true);
  pull.add_entries()->set_key("k");
  if (method == Method::kPull) {
    v1::PullResponse reply;
    return FromGrpcStatus(stub.Pull(&context, pull, &reply));
  }
  const auto stream = stub.PullStream(&context, request);
  v1::PullChunk chunk;
  while (stream->Read(&chunk)) chunk.Clear();
  return FromGrpcStatus(stream->Finish());
}

// What the server's memory holds.
uint64_t UsedBytes(v1::TensorKV::Stub& stub) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer root");
  v1::DescribeServerResponse reply;
  EXPECT_TRUE(stub.DescribeServer(&context, {}, &reply).ok());
  return reply.used_bytes();
}

// A stream that brings a byte for "k", but not yet. The server has room for
// the byte, and has counted the stream, before anybody else calls: a call of
// the same caller could otherwise take the quota first.
class OpenInitStream {
 public:
  OpenInitStream(v1::TensorKV::Stub& stub, const char* token) {
    const uint64_t used_bytes = UsedBytes(stub);
    context_.AddMetadata("authorization", absl::StrCat("Bearer ", token));
    stream_ = stub.InitStream(&context_, &reply_);
    v1::InitChunk manifest;
    Fill(manifest, /*is_stream=*/true);
    stream_->Write(manifest);
    while (UsedBytes(stub) <= used_bytes) std::this_thread::yield();
  }
  void Cancel() {
    context_.TryCancel();
    stream_->Finish();
  }

 private:
  grpc::ClientContext context_;
  v1::InitResponse reply_;
  std::unique_ptr<grpc::ClientWriter<v1::InitChunk>> stream_;
};

uint64_t CallsWaiting(v1::TensorKV::Stub& stub) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer root");
  v1::DescribeNamespaceRequest request;
  request.set_namespace_(kNamespace);
  v1::DescribeNamespaceResponse reply;
  EXPECT_TRUE(stub.DescribeNamespace(&context, request, &reply).ok());
  return reply.status().calls_waiting();
}

// Whether it holds within a number of calls that is larger than any should be.
bool Becomes(absl::FunctionRef<bool()> holds) {
  for (int i = 0; i < 10'000; ++i) {
    if (holds()) return true;
  }
  return false;
}

TEST_F(SecureServerTest, QuotaHoldsUpNobodyButItsCaller) {
  Write("policy", absl::StrCat(kPolicy,
                               "quotas { callers: \"token:pusher\" "
                               "max_calls: 1 max_streams: 1 }"));
  ASSERT_OK_AND_ASSIGN(const auto server, Server::Create(Options()));
  const auto channel = Connect(server->address(), {.tls_ca = Path("ca.crt")});
  const auto stub = v1::TensorKV::NewStub(channel);
  ASSERT_OK(Call(channel, Method::kCreateNamespace, "admin"));
  const auto is_refused = [&](Method method, const char* caller) {
    const absl::Status status = Call(channel, method, caller);
    return ReasonOf(status) == Reason::kLimitReached &&
           RetryDelayOf(status) == absl::Milliseconds(100);
  };
  OpenInitStream open(*stub, "pusher");
  ASSERT_TRUE(
      Becomes([&] { return is_refused(Method::kPullStream, "pusher"); }));

  EXPECT_FALSE(is_refused(Method::kPullStream, "root"));
  EXPECT_FALSE(is_refused(Method::kPull, "pusher"));

  open.Cancel();
  EXPECT_TRUE(
      Becomes([&] { return !is_refused(Method::kPullStream, "pusher"); }));
}

// Workers of one job have one identity.
TEST_F(SecureServerTest, CallThatWaitsLeavesTheQuotaToTheOneThatEndsTheWait) {
  Write("policy", absl::StrCat(kPolicy,
                               "quotas { callers: \"token:pusher\" "
                               "max_calls: 1 max_streams: 1 max_bytes: 99 }"));
  ASSERT_OK_AND_ASSIGN(const auto server, Server::Create(Options()));
  const auto channel = Connect(server->address(), {.tls_ca = Path("ca.crt")});
  const auto stub = v1::TensorKV::NewStub(channel);
  ASSERT_OK(Call(channel, Method::kCreateNamespace, "admin"));
  for (const Method method : {Method::kPull, Method::kPullStream}) {
    SCOPED_TRACE(NameOf(method));
    Background pulled([&] { return PullOnceMade(*stub, method, "pusher"); });
    while (CallsWaiting(*stub) == 0) std::this_thread::yield();

    // It counts as waiting a moment before it leaves its share.
    EXPECT_TRUE(Becomes([&] {
      const absl::Status status = Call(channel, method, "pusher");
      return ReasonOf(status) != Reason::kLimitReached;
    }));
    EXPECT_TRUE(
        Becomes([&] { return Call(channel, Method::kInit, "pusher").ok(); }));

    EXPECT_OK(pulled.Result());
    ASSERT_OK(Call(channel, Method::kDelete, "admin"));
  }
}

TEST_F(SecureServerTest, RefusalForAQuotaHasTheTrailerThatSaysWhen) {
  v1::StatRequest request;
  request.set_namespace_(kNamespace);
  Write("policy",
        absl::StrCat(kPolicy, "quotas { callers: \"token:pusher\" max_bytes: ",
                     request.ByteSizeLong(), " }"));
  ASSERT_OK_AND_ASSIGN(const auto server, Server::Create(Options()));
  const auto channel = Connect(server->address(), {.tls_ca = Path("ca.crt")});
  const auto stub = v1::TensorKV::NewStub(channel);
  ASSERT_OK(Call(channel, Method::kCreateNamespace, "admin"));
  OpenInitStream open(*stub, "pusher");

  EXPECT_TRUE(Becomes([&] {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer pusher");
    v1::StatResponse reply;
    if (stub->Stat(&context, request, &reply).error_code() !=
        grpc::RESOURCE_EXHAUSTED) {
      return false;
    }
    const auto& trailers = context.GetServerTrailingMetadata();
    const auto delay = trailers.find("grpc-retry-pushback-ms");
    return delay != trailers.end() && delay->second == "100";
  }));

  open.Cancel();
}

TEST(PeerHostOfTest, OfIpv6AddressesTheNetworkCounts) {
  EXPECT_EQ(PeerHostOf("ipv4:10.0.0.7:4711"), "10.0.0.7");
  EXPECT_EQ(PeerHostOf("ipv6:[::ffff:10.0.0.7]:4711"), "10.0.0.7");
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
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Options()));
  const auto channel = Connect(server->address(), {.tls_ca = Path("ca.crt")});

  EXPECT_OK(Call(channel, Method::kCreateNamespace, "admin"));
  server.reset();

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
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(options));
  const auto channel = Connect(server->address(), {.tls_ca = Path("ca.crt")});

  EXPECT_OK(Call(channel, Method::kCreateNamespace, "admin"));
  Call(channel, Method::kInitStream, "pusher").IgnoreError();
  server.reset();

  for (const char* line :
       {"slow call: method=CreateNamespace caller=\"token:admin\" outcome=OK ",
        "slow call: method=InitStream caller=\"token:pusher\" outcome="}) {
    EXPECT_THAT(log.str(), HasSubstr(line));
  }
  EXPECT_THAT(log.str(), HasSubstr(absl::StrCat(
                             " namespace=\"team\" trace=", kTrace, "\n")));
}

TEST_F(SecureServerTest, ListsNamespacesThatTheCallerMayRead) {
  ASSERT_OK_AND_ASSIGN(const auto server, Server::Create(Options()));
  const auto channel = Connect(server->address(), {.tls_ca = Path("ca.crt")});
  ASSERT_OK(Call(channel, Method::kCreateNamespace, "admin"));
  const std::map<std::string, int> counts = {
      {"root", 2}, {"reader", 1}, {"elsewhere", 0}};
  const auto stub = v1::TensorKV::NewStub(channel);
  for (const auto& [caller, count] : counts) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + caller);
    v1::ListNamespacesResponse reply;
    ASSERT_OK(FromGrpcStatus(stub->ListNamespaces(&context, {}, &reply)));
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
  EXPECT_EQ(ReasonOf(status), Reason::kUnauthenticated);
}

TEST_F(SecureServerTest, UnixSocketsTellTheUserAndTakeTokens) {
  ServerOptions options = Options();
  options.tls = {};
  // A path in a test's folder may be too long for a socket.
  options.listen = absl::StrCat("unix-abstract:secure_server_test.", getpid());
  ASSERT_OK_AND_ASSIGN(const auto server, Server::Create(options));
  Write("token", "reader");

  EXPECT_THAT(Call(Connect(options.listen, {}), Method::kStat),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr(absl::StrCat("\"uid:", getuid(), "\""))));
  EXPECT_FALSE(IsRefusal(Call(
      Connect(options.listen, {.token_file = Path("token")}), Method::kStat)));
}

TEST_F(SecureServerTest, NamesOfUnixSocketsProveNothing) {
  const std::string forgery = absl::StrCat("tensorkv.uid.", getpid());
  EXPECT_EQ(UserOf(absl::StrCat("unix-abstract:", forgery)), std::nullopt);
  ServerOptions options = Options();
  options.tls = {};
  const std::string name = absl::StrCat("forgery_test.", getpid());
  options.listen = absl::StrCat("unix-abstract:", name);
  ASSERT_OK_AND_ASSIGN(const auto server, Server::Create(options));
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  const auto address_of = [](absl::string_view abstract_name) {
    sockaddr_un address = {.sun_family = AF_UNIX};
    abstract_name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
    return std::pair(
        address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                        abstract_name.size()));
  };
  const auto [forged, forged_size] = address_of(forgery);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&forged), forged_size),
            0);
  const auto [target, target_size] = address_of(name);
  ASSERT_EQ(
      connect(fd, reinterpret_cast<const sockaddr*>(&target), target_size), 0);
  ASSERT_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);

  EXPECT_THAT(
      Call(grpc::CreateInsecureChannelFromFd("forger", fd), Method::kStat),
      StatusIs(absl::StatusCode::kPermissionDenied,
               HasSubstr(absl::StrCat("\"uid:", getuid(), "\""))));
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

TEST_F(SecureServerTest, RulesOfAccessAreReadAgain) {
  ASSERT_OK_AND_ASSIGN(const auto server, Server::Create(Options()));
  const auto channel = Connect(server->address(), {.tls_ca = Path("ca.crt")});
  ASSERT_TRUE(IsRefusal(Call(channel, Method::kPush, "reader")));

  Write("policy", R"(grants { callers: "*" namespaces: "team" role: PUSH })");
  server->ReloadAccess();
  EXPECT_FALSE(IsRefusal(Call(channel, Method::kPush, "reader")));

  Write("policy", "nonsense");
  server->ReloadAccess();
  EXPECT_FALSE(IsRefusal(Call(channel, Method::kPush, "reader")));
}

TEST_F(SecureServerTest, WrongFilesKeepItFromStarting) {
  Install(stranger_.Issue("other", ""), "other");
  Write("nothing", "");
  struct Row {
    const char* option;
    std::string ServerOptions::*access = nullptr;
    std::string TlsOptions::*tls = nullptr;
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
       }) {
    ServerOptions options = Options();
    (row.tls != nullptr ? options.tls.*row.tls : options.*row.access) =
        Path(row.file);
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
