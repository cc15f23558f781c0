#include "bench/data_path/peers/naive_grpc_peer.h"

#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/payload.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "tensor/tensor.h"

namespace tensorkv::bench {
namespace {

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
class NaiveCalls {
 public:
  NaiveCalls(const Workload& workload, std::shared_ptr<NaiveStore::Stub> stub,
             Payload payload)
      : workload_(workload),
        stub_(std::move(stub)),
        payload_(std::move(payload)) {}

  absl::Status Push(int lane) const {
    grpc::ClientContext context;
    NaiveReply reply;
    return ToStatus(stub_->Push(&context, ValuesOf(lane), &reply));
  }

  absl::Status Call(int lane) {
    if (workload_.verb == Verb::kPush) return Push(lane);
    grpc::ClientContext context;
    NaiveValues reply;
    RETURN_IF_ERROR(
        ToStatus(workload_.verb == Verb::kPull
                     ? stub_->Pull(&context, KeysOf(lane), &reply)
                     : stub_->PushPull(&context, ValuesOf(lane), &reply)));
    return CopyOut(reply, lane);
  }

  void Delete() const {
    for (int lane = 0; lane < workload_.in_flight; ++lane) {
      grpc::ClientContext context;
      NaiveReply reply;
      // The next load replaces what is left.
      (void)stub_->Delete(&context, KeysOf(lane), &reply);
    }
  }

 private:
  NaiveValues ValuesOf(int lane) const {
    NaiveValues values;
    for (int64_t i = 0; i < workload_.num_keys; ++i) {
      NaiveValue* value = values.add_values();
      value->set_key(KeyText(lane, i));
      value->set_data(payload_.values.data() + i * workload_.bytes_per_key,
                      workload_.bytes_per_key);
    }
    return values;
  }

  NaiveKeys KeysOf(int lane) const {
    NaiveKeys keys;
    for (int64_t i = 0; i < workload_.num_keys; ++i) {
      keys.add_keys(KeyText(lane, i));
    }
    return keys;
  }

  absl::Status CopyOut(const NaiveValues& reply, int lane) {
    if (reply.values_size() != workload_.num_keys) {
      return absl::InternalError(absl::StrCat("expected ", workload_.num_keys,
                                              " values, got ",
                                              reply.values_size()));
    }
    char* room = payload_.rooms[lane].mutable_data();
    for (const NaiveValue& value : reply.values()) {
      const absl::string_view sent(payload_.values.data(),
                                   workload_.bytes_per_key);
      if (value.data().size() != sent.size()) {
        return CheckEnds(sent, value.data());
      }
      std::memcpy(room, value.data().data(), value.data().size());
      room += value.data().size();
    }
    return absl::OkStatus();
  }

  const Workload workload_;
  const std::shared_ptr<NaiveStore::Stub> stub_;
  Payload payload_;
};

absl::StatusOr<std::unique_ptr<Load>> MakeNaiveLoad(
    const std::shared_ptr<NaiveStore::Stub>& stub, pid_t server,
    const Workload& workload) {
  if (workload.bytes_per_lane() + workload.num_keys * kBytesPerEntry >
      kMaxMessageBytes) {
    return absl::OutOfRangeError("one message takes less than 2 GiB");
  }
  ASSIGN_OR_RETURN(Payload payload, MakePayload(workload));
  const auto calls =
      std::make_shared<NaiveCalls>(workload, stub, std::move(payload));
  for (int lane = 0; lane < workload.in_flight; ++lane) {
    RETURN_IF_ERROR(calls->Push(lane));
  }
  return std::make_unique<FunctionLoad>(
      ShapeOf(workload, server),
      [calls](int lane) { return calls->Call(lane); },
      [calls] { calls->Delete(); });
}

absl::Status Echo(NaiveStore::Stub* stub, const NaiveEcho& message) {
  grpc::ClientContext context;
  NaiveEcho reply;
  RETURN_IF_ERROR(ToStatus(stub->Echo(&context, message, &reply)));
  return CheckEnds(message.data(), reply.data());
}

}  // namespace

std::shared_ptr<NaiveStore::Stub> ConnectToNaiveServer(
    const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return NaiveStore::NewStub(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments));
}

Peer NaiveGrpcPeer(std::shared_ptr<NaiveStore::Stub> stub, pid_t server) {
  return {
      .name = "naive",
      .make_load = [stub = std::move(stub), server](const Workload& workload) {
        return MakeNaiveLoad(stub, server, workload);
      }};
}

Peer GrpcEchoPeer(std::shared_ptr<NaiveStore::Stub> stub, pid_t server) {
  return {
      .name = "echo",
      .make_load = [stub = std::move(stub), server](const Workload& workload)
          -> absl::StatusOr<std::unique_ptr<Load>> {
        NaiveEcho message;
        message.set_data(std::string(workload.bytes_per_lane(), 'x'));
        return std::make_unique<FunctionLoad>(
            ShapeOf(workload, server),
            [stub, message](int) { return Echo(stub.get(), message); });
      }};
}

}  // namespace tensorkv::bench
