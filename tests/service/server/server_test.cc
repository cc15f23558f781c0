#include "service/server/server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "contract/grpc_status.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "nlohmann/json.hpp"
#include "tensorkv/v1/service.grpc.pb.h"
#include "tests/service/http_get.h"
#include "tests/service/server/reflection_call.h"
#include "tests/testing/background.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::grpc::health::v1::Health;
using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;
using testing::Background;
using ::testing::ContainsRegex;
using testing::FakeGpu;
using ::testing::HasSubstr;
using testing::HttpGet;
using testing::HttpResponse;
using testing::ListedServices;
using ::testing::Not;
using ::testing::StartsWith;
using testing::StatusIs;

constexpr uint64_t kBudget = 1 << 20;

ServerOptions Local() {
  return {.listen = "127.0.0.1:0", .budget_bytes = kBudget, .num_threads = 1};
}

ServerOptions WithHttp() {
  ServerOptions options = Local();
  options.metrics_listen = "127.0.0.1:0";
  return options;
}

std::shared_ptr<grpc::Channel> ChannelTo(const Server& server) {
  // A connection of its own: gRPC shares them between equal channels.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(
      server.address(), grpc::InsecureChannelCredentials(), arguments);
}

std::unique_ptr<v1::TensorKV::Stub> StubOf(const Server& server) {
  return v1::TensorKV::NewStub(ChannelTo(server));
}

absl::Status Init(v1::TensorKV::Stub& stub, const std::string& data,
                  const std::string& key = "k",
                  const std::string& name_space = "") {
  v1::InitRequest request;
  request.set_namespace_(name_space);
  request.add_entries()->set_key(key);
  v1::Tensor& tensor = *request.mutable_entries(0)->mutable_tensor();
  tensor.set_dtype(v1::DTYPE_U8);
  tensor.add_shape(static_cast<int64_t>(data.size()));
  tensor.set_data(data);
  v1::InitResponse reply;
  grpc::ClientContext context;
  return FromGrpcStatus(stub.Init(&context, request, &reply));
}

// A Pull of a key until it exists, or of an existing key.
absl::Status Pull(v1::TensorKV::Stub& stub, bool wait_for_keys = false) {
  v1::PullRequest request;
  request.set_wait_for_keys(wait_for_keys);
  request.add_entries()->set_key("k");
  v1::PullResponse reply;
  grpc::ClientContext context;
  return FromGrpcStatus(stub.Pull(&context, request, &reply));
}

// Calls that wait in the default namespace.
uint64_t CallsWaiting(v1::TensorKV::Stub& stub) {
  v1::DescribeNamespaceResponse reply;
  grpc::ClientContext context;
  EXPECT_TRUE(stub.DescribeNamespace(&context, {}, &reply).ok());
  return reply.status().calls_waiting();
}

TEST(ServerTest, KeepsTensors) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Local()));
  const auto stub = StubOf(*server);

  ASSERT_OK(Init(*stub, "bytes"));

  EXPECT_OK(Pull(*stub));
  EXPECT_GE(server->Describe().used_bytes, 5u);
}

TEST(ServerTest, DescribesItself) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Local()));
  v1::DescribeServerResponse reply;
  grpc::ClientContext context;

  ASSERT_TRUE(StubOf(*server)->DescribeServer(&context, {}, &reply).ok());

  EXPECT_FALSE(reply.version().empty());
  EXPECT_EQ(reply.devices(0), "cpu");
  EXPECT_EQ(reply.budget_bytes(), kBudget);
  EXPECT_EQ(reply.max_message_bytes(), 64u << 20);
  EXPECT_EQ(reply.max_entries(), 100'000u);
  EXPECT_GT(reply.start_time().seconds(), 0);
}

TEST(ServerTest, ServersOfOneProcessAreIndependent) {
  ASSERT_OK_AND_ASSIGN(auto one, Server::Create(Local()));
  ASSERT_OK_AND_ASSIGN(auto other, Server::Create(Local()));

  ASSERT_OK(Init(*StubOf(*one), "bytes"));

  EXPECT_THAT(Pull(*StubOf(*other)), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_NE(one->port(), other->port());
  EXPECT_NE(one->Describe().incarnation, other->Describe().incarnation);
}

TEST(ServerTest, BudgetHolds) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Local()));

  EXPECT_THAT(Init(*StubOf(*server), std::string(kBudget + 1, 'x')),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(ServerTest, RequestOverTheMessageLimitIsTooMuch) {
  ServerOptions options = Local();
  options.max_message_bytes = 2048;
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(options));
  const auto stub = StubOf(*server);

  EXPECT_THAT(Init(*stub, std::string(4096, 'x')),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("larger than max")));
  EXPECT_OK(Init(*stub, std::string(1024, 'x')));
}

TEST(ServerTest, WaitsAreBoundedWithoutADeadline) {
  ServerOptions options = Local();
  options.max_wait = absl::Milliseconds(20);
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(options));

  EXPECT_THAT(
      Pull(*StubOf(*server), /*wait_for_keys=*/true),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("\"k\"")));
}

TEST(ServerTest, HealthIsServing) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Local()));
  HealthCheckRequest request;
  request.set_service("tensorkv.v1.TensorKV");
  HealthCheckResponse response;
  grpc::ClientContext context;

  ASSERT_TRUE(Health::NewStub(ChannelTo(*server))
                  ->Check(&context, request, &response)
                  .ok());

  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
}

// --- A server with two GPUs, of which one may fail ---------------------------

class ServerWithGpusTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kGpuBytes = 1 << 23;

  void SetUp() override { Start(/*device_budget_bytes=*/0); }

  void Start(uint64_t device_budget_bytes) {
    ServerOptions options = Local();
    options.metrics_listen = "127.0.0.1:0";
    options.device_budget_bytes = device_budget_bytes;
    OpenedDevices opened;
    for (FakeGpu& gpu : gpus_) {
      ASSERT_OK_AND_ASSIGN(
          auto backend,
          CudaBackend::Create(gpu.Open(), {.quota_bytes = kGpuBytes}));
      device_ = &backend->health();
      opened.devices.push_back(
          {.backend = std::move(backend), .memory_bytes = kGpuBytes});
    }
    ASSERT_OK_AND_ASSIGN(server_, Server::Create(options, std::move(opened)));
    stub_ = StubOf(*server_);
  }

  void FailDevice() {
    device_->Fail(absl::InternalError("fell off the bus")).IgnoreError();
  }
  // Returns when the health service reports `status`.
  void AwaitHealth(HealthCheckResponse::ServingStatus status) {
    grpc::ClientContext context;
    const auto stub = Health::NewStub(ChannelTo(*server_));
    const auto watch = stub->Watch(&context, HealthCheckRequest());
    HealthCheckResponse response;
    while (watch->Read(&response) && response.status() != status) {
    }
    EXPECT_EQ(response.status(), status);
    context.TryCancel();
  }

  static auto HasFailed() {
    return StatusIs(absl::StatusCode::kUnavailable,
                    HasSubstr("fake:1 has failed: fell off the bus"));
  }

  FakeGpu gpus_[2] = {FakeGpu(), FakeGpu({.ordinal = 1})};
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::TensorKV::Stub> stub_;
  DeviceHealth* device_ = nullptr;  // the server's last
};

TEST_F(ServerWithGpusTest, EachHasNineTenthsOfItsMemoryAsBudget) {
  const std::vector<DeviceBudget> budgets = server_->Describe().device_budgets;

  ASSERT_EQ(budgets.size(), 2u);
  EXPECT_EQ(budgets[1].device, "fake:1");
  EXPECT_EQ(budgets[0].budget_bytes, kGpuBytes / 10 * 9);
  EXPECT_EQ(budgets[1].budget_bytes, kGpuBytes / 10 * 9);
}

TEST_F(ServerWithGpusTest, BudgetOfEachIsAsGivenButNoMoreThanItHas) {
  Start(12345);
  EXPECT_EQ(server_->Describe().device_budgets[1].budget_bytes, 12345u);

  Start(kGpuBytes + 1);
  EXPECT_EQ(server_->Describe().device_budgets[1].budget_bytes, kGpuBytes);
}

TEST_F(ServerWithGpusTest, ReportsNotServingAndNotReady) {
  AwaitHealth(HealthCheckResponse::SERVING);
  EXPECT_EQ(HttpGet(server_->metrics_port(), "/readyz").code, 200);
  EXPECT_THAT(HttpGet(server_->metrics_port(), "/metrics").body,
              HasSubstr("\ntensorkv_device_failed 0\n"));

  FailDevice();

  AwaitHealth(HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(HttpGet(server_->metrics_port(), "/readyz").code, 503);
  const HttpResponse health = HttpGet(server_->metrics_port(), "/healthz");
  EXPECT_EQ(health.code, 503);
  EXPECT_EQ(health.body, "fake:1 has failed: fell off the bus\n");
  EXPECT_THAT(HttpGet(server_->metrics_port(), "/metrics").body,
              HasSubstr("\ntensorkv_device_failed 1\n"));
}

TEST_F(ServerWithGpusTest, EveryCallIsUnavailableWithTheCause) {
  ASSERT_OK(Init(*stub_, "bytes"));

  FailDevice();

  EXPECT_THAT(Pull(*stub_), HasFailed());
  EXPECT_THAT(Init(*stub_, "bytes"), HasFailed());
  grpc::ClientContext context;
  v1::DescribeServerResponse server;
  EXPECT_THAT(FromGrpcStatus(stub_->DescribeServer(&context, {}, &server)),
              HasFailed());
  grpc::ClientContext stream_context;
  const auto stream =
      stub_->PullStream(&stream_context, v1::PullStreamRequest());
  EXPECT_THAT(FromGrpcStatus(stream->Finish()), HasFailed());
}

TEST_F(ServerWithGpusTest, WaitingCallEndsWithTheCause) {
  Background pull([&] { return Pull(*stub_, /*wait_for_keys=*/true); });
  while (CallsWaiting(*stub_) == 0) std::this_thread::yield();

  FailDevice();

  EXPECT_THAT(pull.Result(), HasFailed());
}

// --- Peers that send what no client would
// -------------------------------------

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream,
                  const std::string& payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) {
    frame.push_back(static_cast<char>(payload.size() >> shift));
  }
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  for (const int shift : {24, 16, 8, 0}) {
    frame.push_back(static_cast<char>(stream >> shift));
  }
  return frame + payload;
}

// A connection without a client library.
class RawPeer {
 public:
  explicit RawPeer(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<in_port_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&address),
                      sizeof(address)),
              0);
    Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, 0, ""));
  }

  // Returns false once the server has ended the connection.
  bool Send(const std::string& bytes) {
    char reply[4096];
    while (recv(fd_.get(), reply, sizeof(reply), MSG_DONTWAIT) > 0) {
    }
    return send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0;
  }

 private:
  const FileDescriptor fd_;
};

TEST(HostilePeerTest, HeadersWithoutEndEndTheConnection) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(WithHttp()));
  RawPeer peer(server->port());
  // Literal fields, "x" with a value of 100 bytes.
  std::string fields;
  for (int i = 0; i < 100; ++i) {
    fields += absl::StrCat(std::string("\0\1x\x64", 4), std::string(100, 'y'));
  }
  peer.Send(Frame(1, 0, 1, fields));

  while (peer.Send(Frame(9, 0, 1, fields))) {
  }

  EXPECT_OK(Init(*StubOf(*server), "bytes"));
  EXPECT_THAT(HttpGet(server->metrics_port(), "/metrics").body,
              HasSubstr("tensorkv_connections_cut_total 1\n"));
}

TEST(HostilePeerTest, ResetsWithoutEndEndTheConnection) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(WithHttp()));
  RawPeer peer(server->port());

  for (uint32_t stream = 1;; stream += 2) {
    if (!peer.Send(Frame(3, 0, stream, std::string(4, '\0')))) break;
  }

  EXPECT_OK(Init(*StubOf(*server), "bytes"));
  EXPECT_THAT(HttpGet(server->metrics_port(), "/metrics").body,
              HasSubstr("tensorkv_connections_cut_total 1\n"));
}

TEST(HostilePeerTest, MessagesWithoutEndEndTheConnectionThatHasTheMost) {
  ServerOptions options = WithHttp();
  // Less than a peer may send before the server asks for more.
  options.max_message_bytes = 40'000;
  options.max_unfinished_bytes = 40'000;
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(options));
  const auto stub = StubOf(*server);
  ASSERT_OK(Init(*stub, "bytes"));
  // POST, http, :path and :authority by their numbers in HPACK's table, and
  // literals.
  const std::string fields = absl::StrCat(
      "\x83\x86\x04\x1a/tensorkv.v1.TensorKV/Init", "\x01\x01k",
      std::string("\0\x0c", 2), "content-type", "\x10", "application/grpc",
      std::string("\0\2", 2), "te", "\x8", "trailers");
  const std::string message =
      std::string("\0\0\0\x4e\x20", 5) + std::string(8000, 'x');
  const std::string of_modest = "tensorkv_unfinished_bytes 8000\n";
  const auto metrics = [&] {
    return HttpGet(server->metrics_port(), "/metrics").body;
  };
  RawPeer modest(server->port());
  modest.Send(Frame(1, 4, 1, fields) + Frame(0, 0, 1, message));
  while (!absl::StrContains(metrics(), of_modest)) {
  }
  RawPeer peer(server->port());

  for (uint32_t stream = 1;; stream += 2) {
    if (!peer.Send(Frame(1, 4, stream, fields) + Frame(0, 0, stream, message)))
      break;
  }

  EXPECT_OK(Pull(*stub));
  EXPECT_TRUE(modest.Send(Frame(6, 0, 0, "12345678")));
  EXPECT_THAT(metrics(), AllOf(HasSubstr("tensorkv_connections_cut_total 1\n"),
                               HasSubstr(of_modest)));
}

TEST(HostilePeerTest, ConnectionsBeyondTheLimitAreClosed) {
  ServerOptions options = Local();
  options.max_connections = 1;
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(options));
  const auto stub = StubOf(*server);
  ASSERT_OK(Init(*stub, "bytes"));

  RawPeer peer(server->port());
  while (peer.Send(Frame(6, 0, 0, "12345678"))) {
  }

  EXPECT_OK(Pull(*stub));
}

TEST(ServerTest, ReflectionListsTheServices) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Local()));

  const std::string services = ListedServices(ChannelTo(*server)).value();

  EXPECT_THAT(services, HasSubstr("tensorkv.v1.TensorKV"));
  EXPECT_THAT(services, HasSubstr("grpc.health.v1.Health"));
}

TEST(ServerTest, ReflectionCanBeOff) {
  ServerOptions options = Local();
  options.reflection = false;
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(options));

  EXPECT_THAT(ListedServices(ChannelTo(*server)),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("ServerReflection")));
}

TEST(ServerTest, UnixSocketWorks) {
  ServerOptions options = Local();
  // The directory for tests is too long for a socket's address.
  char directory[] = "/tmp/tensorkv-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  options.listen = absl::StrCat("unix:", directory, "/socket");
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(options));

  EXPECT_OK(Init(*StubOf(*server), "bytes"));
  EXPECT_EQ(server->port(), 0);
  EXPECT_EQ(server->address(), options.listen);
  server.reset();
  unlink(absl::StrCat(directory, "/socket").c_str());
  rmdir(directory);
}

TEST(ServerTest, UnixSocketThatCannotBeMadeIsUnavailable) {
  ServerOptions options = Local();
  options.listen = "unix:/no/such/directory/socket";

  EXPECT_THAT(Server::Create(options),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("No such file or directory")));
}

TEST(ServerTest, AddressInUseIsUnavailable) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Local()));
  ServerOptions options = Local();
  options.listen = server->address();

  EXPECT_THAT(Server::Create(options),
              StatusIs(absl::StatusCode::kUnavailable,
                       absl::StrCat("cannot listen on ", server->address(),
                                    ": Address already in use")));
}

TEST(ServerTest, MetricsAddressInUseIsUnavailable) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Local()));
  ServerOptions options = Local();
  options.metrics_listen = server->address();

  EXPECT_THAT(Server::Create(options),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("Address already in use")));
}

TEST(ServerTest, OptionsAreChecked) {
  ServerOptions options = Local();
  options.listen = "0.0.0.0:0";

  EXPECT_THAT(Server::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ServerShutdownTest, EndsWaitingCallsWithUnavailable) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Local()));
  const auto stub = StubOf(*server);
  Background pull([&] { return Pull(*stub, /*wait_for_keys=*/true); });
  while (CallsWaiting(*stub) == 0) {
  }

  server->Shutdown(absl::InfiniteDuration());

  EXPECT_THAT(pull.Result(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(ServerShutdownTest, EndsHealthWatches) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Local()));
  const auto stub = Health::NewStub(ChannelTo(*server));
  grpc::ClientContext context;
  const auto watch = stub->Watch(&context, {});
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);

  server->Shutdown(absl::InfiniteDuration());

  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(watch->Finish().error_code(), grpc::UNAVAILABLE);
}

TEST(ServerShutdownTest, RefusesNewCalls) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Local()));
  const auto stub = StubOf(*server);
  ASSERT_OK(Init(*stub, "bytes"));

  server->Shutdown(absl::ZeroDuration());

  EXPECT_THAT(Pull(*stub), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(ServerShutdownTest, HappensOnce) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Local()));

  server->Shutdown(absl::ZeroDuration());
  server->Shutdown(absl::ZeroDuration());
}

class ServerMonitoringTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = Server::Create(WithHttp()).value();
    const auto stub = StubOf(*server_);
    ASSERT_OK(Init(*stub, "bytes"));
    ASSERT_OK(Pull(*stub));
  }
  static void TearDownTestSuite() { server_.reset(); }

  static std::string Scrape() {
    return HttpGet(server_->metrics_port(), "/metrics").body;
  }

  static inline std::unique_ptr<Server> server_;
};

TEST_F(ServerMonitoringTest, ShowsCalls) {
  EXPECT_THAT(Scrape(),
              HasSubstr("grpc_server_handled_total{grpc_code=\"OK\","
                        "grpc_method=\"Pull\",grpc_service=\"tensorkv.v1."
                        "TensorKV\",grpc_type=\"unary\"} 1\n"));
}

TEST_F(ServerMonitoringTest, ShowsTheStore) {
  const std::string text = Scrape();

  EXPECT_THAT(text, HasSubstr("tensorkv_keys{namespace=\"default\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("tensorkv_memory_bytes{namespace=\"default\","
                              "use=\"values\"} 5\n"));
  EXPECT_THAT(text,
              HasSubstr("tensorkv_sent_bytes_total{method=\"Pull\"} 5\n"));
}

TEST_F(ServerMonitoringTest, ShowsTheServer) {
  const std::string text = Scrape();

  EXPECT_THAT(text, HasSubstr("tensorkv_build_info{version=\""));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("tensorkv_budget_bytes ", kBudget)));
  EXPECT_THAT(text, HasSubstr("\ntensorkv_used_bytes "));
  EXPECT_THAT(text, HasSubstr("\ntensorkv_connections_open "));
  EXPECT_THAT(text, HasSubstr("\ntensorkv_stalled 0\n"));
}

TEST_F(ServerMonitoringTest, ShowsTheProcess) {
  const std::string text = Scrape();

  for (const char* name :
       {"cpu_seconds_total", "resident_memory_bytes", "virtual_memory_bytes",
        "open_fds", "max_fds", "start_time_seconds", "threads"}) {
    EXPECT_THAT(text, ContainsRegex(
                          absl::StrCat("\nprocess_", name, " [0-9.e+]*[1-9]")));
  }
}

TEST_F(ServerMonitoringTest, IdlePageIsShort) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(WithHttp()));

  const std::string page = HttpGet(server->metrics_port(), "/metrics").body;

  EXPECT_LT(std::count(page.begin(), page.end(), '\n'), 200);
}

TEST_F(ServerMonitoringTest, PromtoolFindsNothingToSay) {
  if (access("/usr/bin/promtool", X_OK) != 0) {
    GTEST_SKIP() << "promtool (package prometheus) is not installed";
  }
  const std::string file =
      absl::StrCat(::testing::TempDir(), "/metrics-", getpid());
  FILE* metrics = fopen(file.c_str(), "w");
  fputs(Scrape().c_str(), metrics);
  fclose(metrics);

  const std::string command =
      absl::StrCat("/usr/bin/promtool check metrics < ", file, " 2>&1");
  FILE* promtool = popen(command.c_str(), "r");
  char complaint[1024] = "";
  const size_t size = fread(complaint, 1, sizeof(complaint) - 1, promtool);

  EXPECT_EQ(pclose(promtool), 0);
  EXPECT_EQ(std::string(complaint, size), "");
}

// --- The status page ---------------------------------------------------------

class StatusPageTest : public ::testing::Test {
 protected:
  using Json = nlohmann::json;

  void SetUp() override {
    ServerOptions options = WithHttp();
    options.status_page = true;
    server_ = Server::Create(options).value();
    stub_ = StubOf(*server_);
  }

  HttpResponse Get(const std::string& path) {
    return HttpGet(server_->metrics_port(), path);
  }
  Json Status(const std::string& query = "") {
    return Json::parse(Get("/status.json" + query).body);
  }
  // A sync namespace of two workers, in which the first waits for the other.
  void OpenRound(const std::string& key) {
    v1::CreateNamespaceRequest create;
    create.set_namespace_("pair");
    create.mutable_config()->set_mode(v1::MODE_SYNC);
    create.mutable_config()->set_num_workers(2);
    grpc::ClientContext create_context;
    v1::CreateNamespaceResponse created;
    ASSERT_TRUE(stub_->CreateNamespace(&create_context, create, &created).ok());
    ASSERT_OK(Init(*stub_, "bytes", key, "pair"));
    v1::JoinRequest join;
    join.set_namespace_("pair");
    join.set_worker_name("first");
    join.mutable_lease()->set_seconds(60);
    grpc::ClientContext join_context;
    v1::JoinResponse joined;
    ASSERT_TRUE(stub_->Join(&join_context, join, &joined).ok());
    v1::PushRequest push;
    push.set_namespace_("pair");
    *push.mutable_worker() = joined.worker();
    push.set_step(1);
    push.add_entries()->set_key(key);
    push.mutable_entries(0)->set_skip(true);
    grpc::ClientContext push_context;
    v1::PushResponse pushed;
    ASSERT_OK(FromGrpcStatus(stub_->Push(&push_context, push, &pushed)));
  }

  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::TensorKV::Stub> stub_;
};

TEST_F(StatusPageTest, ShowsTheServerAndItsNamespaces) {
  ASSERT_OK(Init(*stub_, "bytes"));
  ASSERT_OK(Pull(*stub_));

  const Json status = Status();

  EXPECT_EQ(status["server"]["ready"], true);
  EXPECT_EQ(status["server"]["devices"], Json({"cpu"}));
  EXPECT_EQ(status["server"]["budget_bytes"], kBudget);
  EXPECT_EQ(status["server"]["received_bytes"], 5);
  EXPECT_EQ(status["server"]["sent_bytes"], 5);
  ASSERT_EQ(status["namespaces"].size(), 1u);
  EXPECT_EQ(status["namespaces"][0]["name"], "default");
  EXPECT_EQ(status["namespaces"][0]["memory"]["values"], 5);
  EXPECT_EQ(status["next"], "");
  EXPECT_EQ(Status("?after=default")["namespaces"].size(), 0u);
}

TEST_F(StatusPageTest, ShowsWorkersAndWhomRoundsWaitFor) {
  OpenRound("w");

  const Json status = Status("?namespace=pair");

  EXPECT_EQ(status["namespace"]["rounds_open"], 1);
  EXPECT_EQ(status["rounds"],
            Json::parse(R"([{"key": "w", "step": 1, "missing": [1],
                             "num_missing": 1}])"));
  ASSERT_EQ(status["workers"].size(), 1u);
  EXPECT_EQ(status["workers"][0]["name"], "first");
  EXPECT_EQ(status["workers"][0]["step"], 1);
  EXPECT_GT(status["workers"][0]["lease_seconds"], 1.0);
}

TEST_F(StatusPageTest, ShowsKeysByPages) {
  for (int i = 0; i < 310; ++i) {
    ASSERT_OK(Init(*stub_, "bytes", absl::StrCat("k", 1000 + i)));
  }

  const Json first = Status("?namespace=default&prefix=k");
  const Json rest = Status("?namespace=default&prefix=k&after=" +
                           first["next"].get<std::string>());

  EXPECT_EQ(first["keys"].size() + rest["keys"].size(), 310u);
  EXPECT_EQ(first["keys"][0]["key"], "k1000");
  EXPECT_EQ(first["keys"][0]["dtype"], "u8");
  EXPECT_EQ(first["keys"][0]["shape"], Json({5}));
  EXPECT_EQ(first["keys"][0]["version"], "1");
  EXPECT_EQ(rest["keys"].back()["key"], "k1309");
  EXPECT_EQ(rest["next"], "");
  EXPECT_EQ(Status("?namespace=default&prefix=k12")["keys"].size(), 100u);
}

// Names are whatever clients choose.
TEST_F(StatusPageTest, NamesAreTextAlone) {
  const std::string key = "</script><img src=x onerror=\"alert('&')\">+%41";
  ASSERT_OK(Init(*stub_, "bytes", key));

  const HttpResponse reply = Get(
      "/status.json?namespace=default&prefix=%3C%2Fscript%3E%3Cimg+src%3Dx");

  EXPECT_THAT(reply.headers, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(reply.headers, HasSubstr("X-Content-Type-Options: nosniff"));
  EXPECT_EQ(Json::parse(reply.body)["keys"][0]["key"], key);
  for (const char* markup : {"innerHTML", "outerHTML", "insertAdjacent",
                             "document.write", "eval("}) {
    EXPECT_THAT(Get("/status.js").body, Not(HasSubstr(markup)));
  }
  EXPECT_THAT(Get("/").body, Not(HasSubstr("<script>")));
  EXPECT_THAT(Get("/").headers, HasSubstr("script-src 'self'"));
}

TEST_F(StatusPageTest, WrongQueriesAreRefused) {
  EXPECT_EQ(Get("/status.json?namespace=nobody").code, 404);
  EXPECT_EQ(Get("/status.json?namespace=%4").code, 400);
  EXPECT_EQ(Get("/status.json?name=default").code, 400);
  EXPECT_EQ(Get("/status.css").code, 200);
}

TEST_F(StatusPageTest, IsNotThereUnlessItIsAskedFor) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(WithHttp()));

  EXPECT_EQ(HttpGet(server->metrics_port(), "/").code, 404);
  EXPECT_EQ(HttpGet(server->metrics_port(), "/status.json").code, 404);
}

// The last of the suite.
TEST_F(ServerMonitoringTest, TurnsNotReadyWithShutdownAndStaysAlive) {
  const int port = server_->metrics_port();
  EXPECT_EQ(HttpGet(port, "/readyz").code, 200);

  server_->Shutdown(absl::ZeroDuration());

  EXPECT_EQ(HttpGet(port, "/readyz").code, 503);
  EXPECT_EQ(HttpGet(port, "/healthz").code, 200);
  EXPECT_THAT(server_->metrics_address(), StartsWith("127.0.0.1:"));
}

}  // namespace
}  // namespace tensorkv
