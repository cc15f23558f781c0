#include "service/server/server.h"

#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/grpc_status.h"
#include "gmock/gmock.h"
#include "grpc/grpc.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/service/http_get.h"
#include "tests/service/server/local_server.h"
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
using testing::ChannelTo;
using testing::FakeGpu;
using ::testing::HasSubstr;
using testing::HttpGet;
using testing::HttpResponse;
using testing::Init;
using testing::kBudget;
using testing::ListedServices;
using testing::Local;
using testing::Pull;
using testing::StatusIs;
using testing::StubOf;

// Calls that wait in the default namespace.
uint64_t CallsWaiting(testing::Stubs& stub) {
  v1::DescribeNamespaceResponse reply;
  grpc::ClientContext context;
  EXPECT_TRUE(stub.DescribeNamespace(&context, {}, &reply).ok());
  return reply.status().calls_waiting();
}

// gRPC's end may take as long as 10 s. A process of its own has no other user.
TEST(ServerDeathTest, EndsWithoutEndingGrpc) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Server::Create(Local()).value().reset();
        std::exit(grpc_is_initialized() != 0 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
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
  EXPECT_NE(one->Describe().incarnation(), other->Describe().incarnation());
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

// --- A server with a GPU, which may fail -------------------------------------

class ServerWithGpuTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kGpuBytes = 1 << 23;

  void SetUp() override { Start(/*device_budget_bytes=*/0); }

  void Start(uint64_t device_budget_bytes) {
    ServerOptions options = Local();
    options.metrics_listen = "127.0.0.1:0";
    options.device_budget_bytes = device_budget_bytes;
    server_ = nullptr;
    ASSERT_OK_AND_ASSIGN(
        auto backend,
        CudaBackend::Create(gpu_.Open(), {.quota_bytes = kGpuBytes}));
    device_ = &backend->health();
    ASSERT_OK_AND_ASSIGN(server_,
                         Server::Create(options, {.backend = std::move(backend),
                                                  .memory_bytes = kGpuBytes}));
    stub_ = StubOf(*server_);
  }

  void FailDevice() {
    device_->MarkFailed(absl::InternalError("fell off the bus")).IgnoreError();
  }
  // Returns when the health service reports `status`.
  void AwaitHealth(HealthCheckResponse::ServingStatus status) {
    const auto stub = Health::NewStub(ChannelTo(*server_));
    HealthCheckResponse response;
    while (response.status() != status) {
      grpc::ClientContext context;
      ASSERT_TRUE(stub->Check(&context, HealthCheckRequest(), &response).ok());
    }
  }

  static auto HasFailed() {
    return StatusIs(absl::StatusCode::kUnavailable,
                    HasSubstr("fake:0 has failed: fell off the bus"));
  }

  FakeGpu gpu_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<testing::Stubs> stub_;
  DeviceHealth* device_ = nullptr;  // the server's
};

TEST_F(ServerWithGpuTest, BudgetIsNineTenthsOfItsMemory) {
  const ServerStatus status = server_->Describe();

  ASSERT_EQ(status.device_budgets_size(), 1);
  EXPECT_EQ(status.device_budgets(0).device(), "fake:0");
  EXPECT_EQ(status.device_budgets(0).budget_bytes(), kGpuBytes / 10 * 9);
}

TEST_F(ServerWithGpuTest, BudgetIsAsGivenButNoMoreThanThereIs) {
  Start(12345);
  EXPECT_EQ(server_->Describe().device_budgets(0).budget_bytes(), 12345u);

  Start(kGpuBytes + 1);
  EXPECT_EQ(server_->Describe().device_budgets(0).budget_bytes(), kGpuBytes);
}

TEST_F(ServerWithGpuTest, ReportsNotServingAndNotReady) {
  AwaitHealth(HealthCheckResponse::SERVING);
  EXPECT_EQ(HttpGet(server_->metrics_port(), "/readyz").code, 200);
  EXPECT_THAT(HttpGet(server_->metrics_port(), "/metrics").body,
              HasSubstr("\ntensorkv_device_failed 0\n"));

  FailDevice();

  AwaitHealth(HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(HttpGet(server_->metrics_port(), "/readyz").code, 503);
  const HttpResponse health = HttpGet(server_->metrics_port(), "/healthz");
  EXPECT_EQ(health.code, 503);
  EXPECT_EQ(health.body, "fake:0 has failed: fell off the bus\n");
  EXPECT_THAT(HttpGet(server_->metrics_port(), "/metrics").body,
              HasSubstr("\ntensorkv_device_failed 1\n"));
}

TEST_F(ServerWithGpuTest, EveryCallIsUnavailableWithTheCause) {
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

TEST_F(ServerWithGpuTest, WaitingCallEndsWithTheCause) {
  Background pull([&] { return Pull(*stub_, /*wait_for_keys=*/true); });
  while (CallsWaiting(*stub_) == 0) std::this_thread::yield();

  FailDevice();

  EXPECT_THAT(pull.Result(), HasFailed());
}

TEST(ServerTest, ReflectionListsTheServices) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Local()));

  const std::string services = ListedServices(ChannelTo(*server)).value();

  for (const Service service : kAllServices) {
    EXPECT_THAT(services, HasSubstr(std::string(NameOf(service))));
  }
  EXPECT_THAT(services, HasSubstr("grpc.health.v1.Health"));
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

TEST(ServerShutdownTest, RefusesNewCalls) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Local()));
  const auto stub = StubOf(*server);
  ASSERT_OK(Init(*stub, "bytes"));

  server->Shutdown(absl::ZeroDuration());

  EXPECT_THAT(Pull(*stub), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace tensorkv
