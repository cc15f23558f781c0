#include "bench/data_path/peers/socket_peer.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/payload.h"
#include "bench/data_path/sockets/pipeline.h"
#include "tensor/tensor.h"

namespace tensorkv::bench {
namespace {

// Where on its way a part of a lane's values goes.
struct Stripe {
  int connection = 0;
  ValueRange range;
  int64_t offset = 0;  // in the lane's values
};

std::vector<Stripe> StripesOf(const Workload& workload, int lane) {
  const int count = workload.connections;
  if (count <= workload.in_flight) {
    return {{.connection = lane % count,
             .range = {.lane = lane,
                       .num_keys = workload.num_keys,
                       .bytes_per_key = workload.bytes_per_key}}};
  }
  std::vector<Stripe> stripes;
  const int64_t total = workload.bytes_per_lane() / sizeof(float);
  for (int i = 0; i < count; ++i) {
    const int64_t begin = total * i / count * sizeof(float);
    const int64_t end = total * (i + 1) / count * sizeof(float);
    stripes.push_back(
        {.connection = i,
         .range = {.lane = lane * count + i, .bytes_per_key = end - begin},
         .offset = begin});
  }
  return stripes;
}

class SocketLoad final : public Load {
 public:
  static absl::StatusOr<std::unique_ptr<SocketLoad>> Create(
      const SocketPeerOptions& options, const WireProtocol& protocol,
      const Workload& workload) {
    ASSIGN_OR_RETURN(Pipeline pipeline,
                     Pipeline::Connect(options.address, workload.connections));
    ASSIGN_OR_RETURN(Tensor values, MakeValues(workload.bytes_per_lane()));
    std::vector<Tensor> rooms;
    for (int lane = 0; workload.pulls() && lane < workload.in_flight; ++lane) {
      ASSIGN_OR_RETURN(Tensor room, MakeRoom(workload.bytes_per_lane()));
      rooms.push_back(std::move(room));
    }
    std::unique_ptr<SocketLoad> load(
        new SocketLoad(options, protocol, workload, std::move(pipeline),
                       std::move(values), std::move(rooms)));
    RETURN_IF_ERROR(load->CreateKeys());
    return load;
  }

  ~SocketLoad() override {
    if (!status_.ok()) return;  // The connections cannot be used.
    RunOnce([this](const Stripe& stripe, Exchange* exchange) {
      protocol_.AddDelete(stripe.range, exchange);
    }).IgnoreError();  // The next load's values take the place of these.
  }

  absl::Status Run(int64_t num_calls,
                   std::vector<absl::Duration>* latencies) override {
    status_ = pipeline_.Run(calls_, num_calls, [&](absl::Duration latency) {
      latencies->push_back(latency);
    });
    RETURN_IF_ERROR(status_);
    if (rooms_.empty()) return absl::OkStatus();
    return CheckEnds(BytesOf(values_), BytesOf(rooms_.front()));
  }

 private:
  SocketLoad(const SocketPeerOptions& options, const WireProtocol& protocol,
             const Workload& workload, Pipeline pipeline, Tensor values,
             std::vector<Tensor> rooms)
      : Load({.bytes_per_call = workload.bytes_per_call(),
              .keys_per_call = workload.num_keys,
              .in_flight = workload.in_flight,
              .server = options.server}),
        workload_(workload),
        protocol_(protocol),
        pipeline_(std::move(pipeline)),
        values_(std::move(values)),
        rooms_(std::move(rooms)) {
    for (int lane = 0; lane < workload.in_flight; ++lane) {
      calls_.push_back(
          MakeCall(lane, [&](const Stripe& stripe, Exchange* exchange) {
            AddRequests(lane, stripe, exchange);
          }));
    }
  }

  static absl::string_view BytesOf(const Tensor& tensor) {
    return {tensor.data(), static_cast<size_t>(tensor.size_bytes())};
  }

  template <typename AddRequest>
  PipelinedCall MakeCall(int lane, AddRequest add_request) const {
    PipelinedCall call;
    for (const Stripe& stripe : StripesOf(workload_, lane)) {
      PipelinedCall::Part& part = call.parts.emplace_back();
      part.connection = stripe.connection;
      add_request(stripe, &part.exchange);
    }
    return call;
  }

  void AddRequests(int lane, const Stripe& stripe, Exchange* exchange) {
    if (workload_.pushes()) {
      protocol_.AddPut(stripe.range, values_.data() + stripe.offset, exchange);
    }
    if (workload_.pulls()) {
      protocol_.AddGet(stripe.range,
                       rooms_[lane].mutable_data() + stripe.offset, exchange);
    }
  }

  // One call per lane.
  template <typename AddRequest>
  absl::Status RunOnce(AddRequest add_request) {
    std::vector<PipelinedCall> calls;
    for (int lane = 0; lane < workload_.in_flight; ++lane) {
      calls.push_back(MakeCall(lane, add_request));
    }
    return pipeline_.Run(calls, calls.size(), [](absl::Duration) {});
  }

  absl::Status CreateKeys() {
    status_ = RunOnce([this](const Stripe& stripe, Exchange* exchange) {
      protocol_.AddPut(stripe.range, values_.data() + stripe.offset, exchange);
    });
    return status_;
  }

  const Workload workload_;
  const WireProtocol& protocol_;
  Pipeline pipeline_;
  const Tensor values_;
  std::vector<Tensor> rooms_;  // one per lane, if they are needed
  std::vector<PipelinedCall> calls_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Load>> SocketPeer::MakeLoad(
    const Workload& workload) {
  if (workload.bytes_per_key > options_.max_value_bytes) {
    return absl::OutOfRangeError(
        absl::StrCat(options_.name, " takes values of at most ",
                     options_.max_value_bytes, " bytes"));
  }
  Workload own = workload;
  if (!options_.uses_stripes) own.connections = 1;
  return SocketLoad::Create(options_, *protocol_, own);
}

}  // namespace tensorkv::bench
