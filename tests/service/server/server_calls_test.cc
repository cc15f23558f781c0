#include "service/server/server_calls.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "service/server/open_device.h"
#include "tests/service/server/local_server.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace server_calls_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::StatusIs;

// Calls of a server in no cluster, made by somebody with an identity.
class ServerCallsTest : public ::testing::Test {
 protected:
  ServerCallsTest() { EXPECT_OK(access_.Reload()); }
  ~ServerCallsTest() override { std::filesystem::remove_all(directory_); }

  void OpenCheckpoints() {
    checkpoints_ =
        Checkpoints::Create({.directory = directory_}, &engine_.snapshots())
            .value();
  }

  template <typename Request>
  absl::Status Call(const Request& request) {
    return calls_.Make(request, {.caller = {.name = "unix"}}).status();
  }

  template <typename Request>
  static Request About(const std::string& checkpoint) {
    Request request;
    request.set_name(checkpoint);
    return request;
  }

  // What an audit says of a call.
  static std::string Line(absl::string_view method_and_subject,
                          absl::string_view outcome) {
    return absl::StrCat("audit: caller=\"unix\" method=", method_and_subject,
                        " outcome=", outcome);
  }

  const std::string directory_ = absl::StrCat(
      ::testing::TempDir(), "/server_calls-",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  const ServerOptions options_ = testing::Local();
  const Incarnation incarnation_{7};
  prometheus::Registry registry_;
  Engine engine_{options_,
                 OpenDevice({}, 1,
                            [](int) -> absl::StatusOr<OpenedCudaBackend> {
                              return absl::UnimplementedError("none is asked");
                            })
                     .value(),
                 [](const std::string&) {}, &registry_, /*exchange=*/nullptr};
  KnownPlacement placement_{""};
  std::vector<std::string> audit_;
  AccessControl access_{
      {.on_audit = [this](const std::string& line) { audit_.push_back(line); },
       .on_refused = [](Method, absl::FunctionRef<std::string()>) {}}};
  std::unique_ptr<Checkpoints> checkpoints_;
  ServerCalls calls_{{.options = &options_,
                      .incarnation = &incarnation_,
                      .engine = &engine_,
                      .placement = &placement_,
                      .access = &access_,
                      .checkpoints = [this] { return checkpoints_.get(); },
                      .cluster = [] { return nullptr; }}};
};

TEST_F(ServerCallsTest, DescriptionsAreNotAudited) {
  ASSERT_OK_AND_ASSIGN(const DescribeServerReply server,
                       calls_.Make(DescribeServerRequest(), {}));
  ASSERT_OK(Call(DescribeServerRequest()));
  ASSERT_OK(Call(DescribeClusterRequest()));

  EXPECT_EQ(server.incarnation(), 7u);
  EXPECT_EQ(server.budget_bytes(), testing::kBudget);
  EXPECT_THAT(audit_, IsEmpty());
}

TEST_F(ServerCallsTest, AuditsSayWhichCheckpointsAndNamespaces) {
  OpenCheckpoints();

  auto restore = About<RestoreCheckpointRequest>("a");
  restore.set_as_namespace("b");
  auto save_some = About<SaveCheckpointRequest>("c");
  save_some.add_namespaces("x");
  save_some.add_namespaces("y");

  ASSERT_OK(Call(About<SaveCheckpointRequest>("a")));
  ASSERT_OK(Call(restore));
  ASSERT_OK(Call(ListCheckpointsRequest()));
  ASSERT_OK(Call(About<VerifyCheckpointRequest>("a")));
  ASSERT_OK(Call(About<DeleteCheckpointRequest>("a")));
  EXPECT_THAT(Call(save_some), StatusIs(absl::StatusCode::kNotFound));

  EXPECT_THAT(
      audit_,
      ElementsAre(
          Line("SaveCheckpoint namespace=\"a of default\"", "OK"),
          Line("RestoreCheckpoint namespace=\"a of default as b\"", "OK"),
          Line("ListCheckpoints", "OK"),
          Line("VerifyCheckpoint namespace=\"a\"", "OK"),
          Line("DeleteCheckpoint namespace=\"a\"", "OK"),
          Line("SaveCheckpoint namespace=\"c of x,y\"", "NOT_FOUND")));
}

TEST_F(ServerCallsTest, AuditsSayWhatAClusterWasAskedFor) {
  const auto in_none = StatusIs(absl::StatusCode::kFailedPrecondition,
                                "the server is in no cluster");

  ResizeClusterRequest request;
  request.add_add("s");
  request.add_add("t");
  request.set_give_up(true);

  EXPECT_THAT(Call(request), in_none);

  EXPECT_THAT(audit_,
              ElementsAre(Line(
                  "ResizeCluster namespace=\"add=s,t remove= lost= give_up\"",
                  "FAILED_PRECONDITION")));
}

TEST_F(ServerCallsTest, RefusesCheckpointsWithoutADirectory) {
  EXPECT_THAT(Call(ListCheckpointsRequest()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace server_calls_test
}  // namespace tensorkv
