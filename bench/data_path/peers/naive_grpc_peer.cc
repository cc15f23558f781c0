#include "bench/data_path/peers/naive_grpc_peer.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/lanes.h"
#include "bench/data_path/peers/payload.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "tensor/tensor.h"

namespace tensorkv::bench {
namespace {

absl::Status ToStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

LoadShape ShapeOf(const Workload& workload, pid_t server) {
  return {.bytes_per_call = workload.bytes_per_call(),
          .keys_per_call = workload.num_keys,
          .in_flight = workload.in_flight,
          .server = server};
}

class NaiveLoad final : public Load {
 public:
  NaiveLoad(const Workload& workload, pid_t server, NaiveStore::Stub* stub,
            Tensor values, std::vector<Tensor> rooms)
      : Load(ShapeOf(workload, server)),
        workload_(workload),
        stub_(stub),
        values_(std::move(values)),
        rooms_(std::move(rooms)) {}

  ~NaiveLoad() override {
    for (int lane = 0; lane < workload_.in_flight; ++lane) {
      grpc::ClientContext context;
      NaiveReply reply;
      // The next load replaces what is left.
      (void)stub_->Delete(&context, KeysOf(lane), &reply);
    }
  }

  absl::Status CreateKeys() {
    for (int lane = 0; lane < workload_.in_flight; ++lane) {
      RETURN_IF_ERROR(Push(lane));
    }
    return absl::OkStatus();
  }

  absl::Status Run(int64_t num_calls,
                   std::vector<absl::Duration>* latencies) override {
    return RunOnLanes(
        workload_.in_flight, num_calls, [this](int lane) { return Call(lane); },
        latencies);
  }

 private:
  absl::Status Call(int lane) {
    switch (workload_.verb) {
      case Verb::kPush:
        return Push(lane);
      case Verb::kPull:
        return Pull(lane);
      case Verb::kPushPull:
        return PushPull(lane);
    }
    return absl::OkStatus();
  }

  absl::Status Push(int lane) {
    grpc::ClientContext context;
    NaiveReply reply;
    return ToStatus(stub_->Push(&context, ValuesOf(lane), &reply));
  }

  absl::Status Pull(int lane) {
    grpc::ClientContext context;
    NaiveValues reply;
    RETURN_IF_ERROR(ToStatus(stub_->Pull(&context, KeysOf(lane), &reply)));
    return CopyOut(reply, lane);
  }

  absl::Status PushPull(int lane) {
    grpc::ClientContext context;
    NaiveValues reply;
    RETURN_IF_ERROR(
        ToStatus(stub_->PushPull(&context, ValuesOf(lane), &reply)));
    return CopyOut(reply, lane);
  }

  NaiveValues ValuesOf(int lane) const {
    NaiveValues values;
    for (int64_t i = 0; i < workload_.num_keys; ++i) {
      NaiveValue* value = values.add_values();
      value->set_key(KeyText(lane, i));
      value->set_data(values_.data() + i * workload_.bytes_per_key,
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
    char* room = rooms_[lane].mutable_data();
    if (reply.values_size() != workload_.num_keys) {
      return absl::InternalError(absl::StrCat("expected ", workload_.num_keys,
                                              " values, got ",
                                              reply.values_size()));
    }
    for (const NaiveValue& value : reply.values()) {
      const absl::string_view sent(values_.data(), workload_.bytes_per_key);
      if (value.data().size() != sent.size()) {
        return CheckEnds(sent, value.data());
      }
      std::memcpy(room, value.data().data(), value.data().size());
      room += value.data().size();
    }
    return absl::OkStatus();
  }

  const Workload workload_;
  NaiveStore::Stub* const stub_;
  const Tensor values_;
  std::vector<Tensor> rooms_;  // one per lane, if they are needed
};

class EchoLoad final : public Load {
 public:
  EchoLoad(const Workload& workload, pid_t server, NaiveStore::Stub* stub)
      : Load(ShapeOf(workload, server)), stub_(stub) {
    message_.set_data(std::string(workload.bytes_per_lane(), 'x'));
  }

  absl::Status Run(int64_t num_calls,
                   std::vector<absl::Duration>* latencies) override {
    return RunOnLanes(
        shape().in_flight, num_calls, [this](int) { return Echo(); },
        latencies);
  }

 private:
  absl::Status Echo() {
    grpc::ClientContext context;
    NaiveEcho reply;
    RETURN_IF_ERROR(ToStatus(stub_->Echo(&context, message_, &reply)));
    return CheckEnds(message_.data(), reply.data());
  }

  NaiveStore::Stub* const stub_;
  NaiveEcho message_;
};

}  // namespace

std::shared_ptr<NaiveStore::Stub> ConnectToNaiveServer(
    const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return NaiveStore::NewStub(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments));
}

absl::StatusOr<std::unique_ptr<Load>> NaiveGrpcPeer::MakeLoad(
    const Workload& workload) {
  // Keys and tags of small values take some bytes too.
  constexpr int64_t kBytesPerEntry = 64;
  const int64_t message_bytes =
      workload.bytes_per_lane() + workload.num_keys * kBytesPerEntry;
  if (message_bytes > kMaxMessageBytes) {
    return absl::OutOfRangeError("one message takes less than 2 GiB");
  }
  ASSIGN_OR_RETURN(Tensor values, MakeValues(workload.bytes_per_lane()));
  std::vector<Tensor> rooms;
  for (int lane = 0; workload.pulls() && lane < workload.in_flight; ++lane) {
    ASSIGN_OR_RETURN(Tensor room, MakeRoom(workload.bytes_per_lane()));
    rooms.push_back(std::move(room));
  }
  auto load = std::make_unique<NaiveLoad>(workload, server_, stub_.get(),
                                          std::move(values), std::move(rooms));
  RETURN_IF_ERROR(load->CreateKeys());
  return load;
}

absl::StatusOr<std::unique_ptr<Load>> GrpcEchoPeer::MakeLoad(
    const Workload& workload) {
  return std::make_unique<EchoLoad>(workload, server_, stub_.get());
}

}  // namespace tensorkv::bench
