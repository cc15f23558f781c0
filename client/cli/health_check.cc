#include "client/cli/health_check.h"

#include <chrono>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cluster/cluster_target.h"
#include "client/internal/transfer/channel_security.h"
#include "client/internal/transfer/grpc_channel.h"
#include "contract/grpc_status.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/client_context.h"

namespace tensorkv {

using ::grpc::health::v1::Health;
using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;

namespace {

absl::Status CheckOne(const std::string& target, const Credentials& credentials,
                      absl::Duration timeout) {
  ASSIGN_OR_RETURN(const ChannelSecurity security,
                   MakeChannelSecurity(credentials, target));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMicroseconds(timeout));
  HealthCheckResponse response;
  RETURN_IF_ERROR(FromGrpcStatus(
      Health::NewStub(OpenChannel(target, kDefaultMaxMessageBytes, security))
          ->Check(&context, HealthCheckRequest(), &response)));
  if (response.status() == HealthCheckResponse::SERVING) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("server ", target, ": expected SERVING, got ",
                   HealthCheckResponse::ServingStatus_Name(response.status())));
}

}  // namespace

absl::Status CheckHealth(const std::string& target,
                         const Credentials& credentials,
                         absl::Duration timeout) {
  std::vector<std::string> servers = {target};
  if (IsClusterTarget(target)) {
    ASSIGN_OR_RETURN(servers, ParseClusterTarget(target));
  }
  for (const std::string& server : servers) {
    RETURN_IF_ERROR(CheckOne(server, credentials, timeout));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv
