// Asks a server by gRPC reflection which services it has.

#ifndef TENSORKV_TESTS_SERVICE_SERVER_REFLECTION_CALL_H_
#define TENSORKV_TESTS_SERVICE_SERVER_REFLECTION_CALL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/channel.h"

namespace tensorkv::testing {

// The encoded answer, which contains the names of the services.
absl::StatusOr<std::string> ListedServices(
    std::shared_ptr<grpc::Channel> channel);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_SERVER_REFLECTION_CALL_H_
