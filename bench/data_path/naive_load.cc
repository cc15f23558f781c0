#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/loads.h"
#include "bench/data_path/naive_store.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"

namespace tensorkv::bench {
namespace naive_load {

// Protocol Buffers' bound of a message; keys and tags of small values take
// some bytes too.
constexpr int64_t kMaxMessageBytes = (int64_t{2} << 30) - 1;
constexpr int64_t kBytesPerEntry = 64;

absl::Status ToStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

// The calls of one workload.
struct Calls {
  ~Calls() {
    grpc::ClientContext context;
    NaiveReply reply;
    // The next load replaces what is left.
    (void)stub->Delete(&context, Keys(), &reply);
  }

  absl::Status Push() const {
    grpc::ClientContext context;
    NaiveReply reply;
    return ToStatus(stub->Push(&context, Values(), &reply));
  }

  absl::Status Call() {
    if (workload.verb == Verb::kPush) return Push();
    grpc::ClientContext context;
    NaiveValues reply;
    RETURN_IF_ERROR(ToStatus(workload.verb == Verb::kPull
                                 ? stub->Pull(&context, Keys(), &reply)
                                 : stub->PushPull(&context, Values(), &reply)));
    return CopyOut(reply);
  }

  NaiveValues Values() const {
    NaiveValues result;
    for (int64_t i = 0; i < workload.num_keys; ++i) {
      NaiveValue* value = result.add_values();
      value->set_key(KeyText(/*lane=*/0, i));
      value->set_data(values.data() + i * workload.bytes_per_key,
                      workload.bytes_per_key);
    }
    return result;
  }

  NaiveKeys Keys() const {
    NaiveKeys result;
    for (int64_t i = 0; i < workload.num_keys; ++i) {
      result.add_keys(KeyText(/*lane=*/0, i));
    }
    return result;
  }

  absl::Status CopyOut(const NaiveValues& reply) {
    if (reply.values_size() != workload.num_keys) {
      return absl::InternalError(absl::StrCat("expected ", workload.num_keys,
                                              " values, got ",
                                              reply.values_size()));
    }
    const absl::string_view sent(values.data(), workload.bytes_per_key);
    char* to = pulled.mutable_data();
    for (const NaiveValue& value : reply.values()) {
      if (value.data().size() != sent.size()) {
        return CheckEnds(sent, value.data());
      }
      std::memcpy(to, value.data().data(), value.data().size());
      to += value.data().size();
    }
    return CheckEnds(BytesOf(values), BytesOf(pulled));
  }

  Workload workload;
  std::unique_ptr<NaiveStore::Stub> stub;
  Tensor values;
  Tensor pulled;
};

}  // namespace naive_load

absl::StatusOr<Load> NaiveLoad(Servers* servers, const Workload& workload) {
  if (workload.size_bytes() + workload.num_keys * naive_load::kBytesPerEntry >
      naive_load::kMaxMessageBytes) {
    return absl::OutOfRangeError("one message takes less than 2 GiB");
  }
  ASSIGN_OR_RETURN(const ServerProcess server, servers->Get("naive"));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  const auto calls = std::make_shared<naive_load::Calls>();
  calls->workload = workload;
  calls->stub = NaiveStore::NewStub(grpc::CreateCustomChannel(
      server.address, grpc::InsecureChannelCredentials(), arguments));
  ASSIGN_OR_RETURN(calls->values, MakeValues(workload.size_bytes()));
  if (workload.pulls()) {
    ASSIGN_OR_RETURN(calls->pulled, MakeZeros(workload.size_bytes()));
  }
  RETURN_IF_ERROR(calls->Push());
  return Load{.call = [calls] { return calls->Call(); },
              .bytes = workload.bytes_moved(),
              .keys = workload.num_keys,
              .server = server.pid};
}

}  // namespace tensorkv::bench
