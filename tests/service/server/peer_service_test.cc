#include "service/server/peer_service.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/alarms.h"
#include "contract/grpc_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "service/mirror/peer_call.h"
#include "tests/service/http_get.h"
#include "tests/service/server/local_server.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace peer_service_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

std::vector<Method> PeerMethods() {
  std::vector<Method> methods;
  for (const Method method : kAllMethods) {
    if (ServiceOf(method) == Service::kPeer) methods.push_back(method);
  }
  return methods;
}

// Calls to a server in no cluster, made by somebody with an identity.
class PeerServiceTest : public ::testing::Test {
 protected:
  PeerServiceTest() { EXPECT_OK(access_.Reload()); }

  absl::Status Call(Method method, const std::string& bytes) {
    const grpc::Slice slice(bytes);
    grpc::ByteBuffer request(&slice, 1);
    absl::Status status = absl::InternalError("not answered");
    peer_.Handle(method, &request, {.caller = {.name = "unix"}},
                 [&status](const absl::StatusOr<grpc::ByteBuffer>& reply) {
                   status = reply.status();
                 });
    return status;
  }
  template <typename Request>
  absl::Status Call(const Request& request) {
    return Call(PeerCall<Request>::kMethod, request.SerializeAsString());
  }

  static std::string AuditOf(absl::string_view method) {
    return absl::StrCat("audit: caller=\"unix\" method=", method,
                        " namespace=\"s\" outcome=FAILED_PRECONDITION");
  }

  SteadyAlarms alarms_;
  CpuBackend backend_{/*num_threads=*/1};
  MirrorExchange mirrors_{{}, &alarms_, &backend_};
  std::vector<std::string> audit_;
  AccessControl access_{
      {.on_audit = [this](const std::string& line) { audit_.push_back(line); },
       .on_refused = [](Method, absl::FunctionRef<std::string()>) {}}};
  const PeerService peer_{{.mirrors = &mirrors_,
                           .cluster = [] { return nullptr; },
                           .access = &access_,
                           .limits = {}}};
};

TEST_F(PeerServiceTest, MalformedRequestIsInvalid) {
  for (const Method method : PeerMethods()) {
    EXPECT_THAT(
        Call(method, "\xff\xff\xff"),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("malformed ")))
        << NameOf(method);
  }
  EXPECT_THAT(audit_, IsEmpty());
}

TEST_F(PeerServiceTest, MovesAreAudited) {
  const auto in_none = StatusIs(absl::StatusCode::kFailedPrecondition,
                                "the server is in no cluster");
  v1::BeginMoveRequest begin;
  begin.set_from("s");
  v1::SendMovePartRequest part;
  part.set_from("s");
  v1::CommitMoveRequest commit;
  commit.set_from("s");

  EXPECT_THAT(Call(begin), in_none);
  EXPECT_THAT(Call(part), in_none);
  EXPECT_THAT(Call(commit), in_none);

  EXPECT_THAT(audit_, ElementsAre(AuditOf("BeginMove"), AuditOf("SendMovePart"),
                                  AuditOf("CommitMove")));
}

TEST_F(PeerServiceTest, CallsOfMirrorsAreNotAudited) {
  const auto in_none = StatusIs(absl::StatusCode::kFailedPrecondition,
                                "the server is in no cluster");

  EXPECT_THAT(Call(v1::AnnounceRoundsRequest()), in_none);
  EXPECT_THAT(Call(v1::BeginSumsRequest()), in_none);
  EXPECT_THAT(Call(v1::RunSumsRequest()), in_none);
  EXPECT_THAT(Call(v1::DeliverRangesRequest()), in_none);
  EXPECT_THAT(Call(v1::PingRequest()), in_none);

  EXPECT_THAT(audit_, IsEmpty());
}

TEST_F(PeerServiceTest, RefusesCallsOfClients) {
  EXPECT_THAT(Call(Method::kPull, ""), StatusIs(absl::StatusCode::kInternal));
}

TEST(ServerOfPeersTest, CountsEachCallByItsMethod) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(testing::WithHttp()));
  const auto stub = testing::StubOf(*server);
  grpc::ClientContext contexts[2];
  v1::BeginMoveResponse begun;
  v1::PingResponse pinged;

  EXPECT_THAT(FromGrpcStatus(stub->BeginMove(&contexts[0], {}, &begun)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(FromGrpcStatus(stub->Ping(&contexts[1], {}, &pinged)),
              StatusIs(absl::StatusCode::kFailedPrecondition));

  const std::string text =
      testing::HttpGet(server->metrics_port(), "/metrics").body;
  for (const char* method : {"BeginMove", "Ping"}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat(
                          "grpc_server_handled_total{grpc_code="
                          "\"FailedPrecondition\",grpc_method=\"",
                          method,
                          "\",grpc_service=\"tensorkv.v1.Peer\",grpc_type="
                          "\"unary\"} 1\n")));
  }
}

}  // namespace peer_service_test
}  // namespace tensorkv
