// A server in the test's process, and calls to it by the generated code.

#ifndef TENSORKV_TESTS_SERVICE_SERVER_LOCAL_SERVER_H_
#define TENSORKV_TESTS_SERVICE_SERVER_LOCAL_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "contract/grpc_status.h"
#include "grpcpp/grpcpp.h"
#include "service/server/server.h"
#include "tests/testing/stubs.h"

namespace tensorkv::testing {

inline constexpr uint64_t kBudget = 1 << 20;

inline ServerOptions Local() {
  return {.listen = "127.0.0.1:0", .budget_bytes = kBudget, .num_threads = 1};
}

inline ServerOptions WithHttp() {
  ServerOptions options = Local();
  options.metrics_listen = "127.0.0.1:0";
  return options;
}

inline std::shared_ptr<grpc::Channel> ChannelTo(const Server& server) {
  // A connection of its own: gRPC shares them between equal channels.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(
      server.address(), grpc::InsecureChannelCredentials(), arguments);
}

inline std::unique_ptr<Stubs> StubOf(const Server& server) {
  return std::make_unique<Stubs>(ChannelTo(server));
}

// A key of bytes.
inline absl::Status Init(Stubs& stub, const std::string& data,
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
inline absl::Status Pull(Stubs& stub, bool wait_for_keys = false) {
  v1::PullRequest request;
  request.set_wait_for_keys(wait_for_keys);
  request.add_entries()->set_key("k");
  v1::PullResponse reply;
  grpc::ClientContext context;
  return FromGrpcStatus(stub.Pull(&context, request, &reply));
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_SERVER_LOCAL_SERVER_H_
