#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "contract/grpc_status.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "service/server/server.h"
#include "tests/service/http_get.h"
#include "tests/service/server/local_server.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace server_pages_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::HttpGet;
using testing::HttpResponse;
using testing::Init;
using testing::kBudget;
using ::testing::Not;
using testing::Pull;
using ::testing::StartsWith;
using testing::StubOf;
using testing::WithHttp;

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
                        "Data\",grpc_type=\"unary\"} 1\n"));
}

TEST_F(ServerMonitoringTest, ShowsTheStore) {
  const std::string text = Scrape();

  EXPECT_THAT(text, HasSubstr("tensorkv_keys{namespace=\"default\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("tensorkv_memory_bytes{namespace=\"default\","
                              "use=\"values\"} 5\n"));
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

  EXPECT_LT(std::count(page.begin(), page.end(), '\n'), 240);
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
  Json Status(const std::string& call) {
    return Json::parse(Get("/status/" + call).body);
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
  std::unique_ptr<testing::Stubs> stub_;
};

TEST_F(StatusPageTest, ShowsTheServerAndItsNamespaces) {
  ASSERT_OK(Init(*stub_, "bytes"));

  const Json server = Status("DescribeServer");
  const Json list = Status("ListNamespaces");

  EXPECT_EQ(server["devices"], Json({"cpu"}));
  EXPECT_EQ(server["budget_bytes"], absl::StrCat(kBudget));
  ASSERT_EQ(list["namespaces"].size(), 1u);
  EXPECT_EQ(list["namespaces"][0]["name"], "default");
  EXPECT_EQ(list["namespaces"][0]["memory"]["values"], "5");
  EXPECT_EQ(list["next_page_token"], "");
  EXPECT_EQ(Status("ListNamespaces?page_token=default")["namespaces"],
            Json::array());
  EXPECT_EQ(Status("DescribeCluster")["placement"]["servers"], Json::array());
}

TEST_F(StatusPageTest, ShowsWorkersAndWhomRoundsWaitFor) {
  OpenRound("w");

  const Json status = Status("DescribeNamespace?namespace=pair")["status"];

  EXPECT_EQ(status["rounds_open"], "1");
  EXPECT_EQ(Status("OpenRounds?namespace=pair"),
            Json::parse(R"({"rounds": [{"key": "w", "step": 1, "missing": [1],
                                        "num_missing": 1}]})"));
  ASSERT_EQ(status["workers"].size(), 1u);
  EXPECT_EQ(status["workers"][0]["name"], "first");
  EXPECT_EQ(status["workers"][0]["step"], "1");
  EXPECT_THAT(std::string(status["workers"][0]["lease_remaining"]),
              ::testing::EndsWith("s"));
}

TEST_F(StatusPageTest, ShowsKeysByPages) {
  for (int i = 0; i < 310; ++i) {
    ASSERT_OK(Init(*stub_, "bytes", absl::StrCat("k", 1000 + i)));
  }
  const std::string list = "List?namespace=default&page_size=300&prefix=k";

  const Json first = Status(list);
  const Json rest = Status(
      list + "&page_token=" + first["next_page_token"].get<std::string>());

  EXPECT_EQ(first["keys"].size() + rest["keys"].size(), 310u);
  EXPECT_EQ(first["keys"][0]["key"], "k1000");
  EXPECT_EQ(first["keys"][0]["dtype"], "DTYPE_U8");
  EXPECT_EQ(first["keys"][0]["shape"], Json({"5"}));
  EXPECT_EQ(first["keys"][0]["version"], "1");
  EXPECT_EQ(rest["keys"].back()["key"], "k1309");
  EXPECT_EQ(rest["next_page_token"], "");
  EXPECT_EQ(Status(list + "12")["keys"].size(), 100u);
}

TEST_F(StatusPageTest, ShowsSnapshotsAndWhoHasThem) {
  ASSERT_OK(Init(*stub_, "bytes", "k"));
  v1::CreateSnapshotRequest create;
  create.set_series("policy");
  v1::CreateSnapshotResponse created;
  v1::LeaseSnapshotRequest lease;
  lease.mutable_at()->set_series("policy");
  lease.mutable_at()->set_latest(true);
  lease.set_lease("engine-3");
  lease.mutable_duration()->set_seconds(60);
  v1::LeaseSnapshotResponse leased;
  grpc::ClientContext first;
  ASSERT_TRUE(stub_->CreateSnapshot(&first, create, &created).ok());
  grpc::ClientContext second;
  ASSERT_TRUE(stub_->LeaseSnapshot(&second, lease, &leased).ok());

  const Json page = Status("Snapshots?namespace=default");

  ASSERT_EQ(page["snapshots"].size(), 1u);
  const Json& shown = page["snapshots"][0];
  EXPECT_EQ(shown["snapshot"]["series"], "policy");
  EXPECT_EQ(shown["snapshot"]["number"], "1");
  EXPECT_EQ(shown["retained_bytes"], "0");
  EXPECT_EQ(shown["leases"][0]["name"], "engine-3");
  EXPECT_FALSE(shown["leases"][0].contains("caller"));
  EXPECT_EQ(Get("/status/Snapshots?namespace=nobody").code, 404);
}

// Names are whatever clients choose.
TEST_F(StatusPageTest, NamesAreTextAlone) {
  const std::string key = "</script><img src=x onerror=\"alert('&')\">+%41";
  ASSERT_OK(Init(*stub_, "bytes", key));

  const HttpResponse reply = Get(
      "/status/List?namespace=default&prefix=%3C%2Fscript%3E%3Cimg+src%3Dx");

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
  EXPECT_EQ(Get("/status/DescribeNamespace?namespace=nobody").code, 404);
  EXPECT_EQ(Get("/status/OpenRounds?namespace=nobody").code, 404);
  EXPECT_EQ(Get("/status/OpenRounds").code, 400);
  EXPECT_EQ(Get("/status/List?name=default").code, 400);
  EXPECT_EQ(Get("/status/DeleteNamespace?namespace=default").code, 404);
  EXPECT_EQ(Get("/status.css").code, 200);
}

TEST_F(StatusPageTest, IsNotThereUnlessItIsAskedFor) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(WithHttp()));

  EXPECT_EQ(HttpGet(server->metrics_port(), "/").code, 404);
  EXPECT_EQ(HttpGet(server->metrics_port(), "/status/List").code, 404);
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

}  // namespace server_pages_test
}  // namespace tensorkv
