#include "bench/data_path/peers/tensorkv_peer.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/lanes.h"
#include "bench/data_path/peers/payload.h"

namespace tensorkv::bench {
namespace {

// The keys of one call, and their values, which share memory with `values`.
struct Lane {
  std::vector<std::string> keys;
  std::vector<PushEntry> entries;
};

// Tensors of `workload.bytes_per_key`, one after the other in `values`.
absl::StatusOr<std::vector<Tensor>> Split(const Tensor& values,
                                          const Workload& workload) {
  std::vector<Tensor> tensors;
  const int64_t bytes = workload.bytes_per_key;
  const Shape shape = {bytes / static_cast<int64_t>(sizeof(float))};
  for (int64_t i = 0; i < workload.num_keys; ++i) {
    RefPtr<Buffer> buffer = MakeRefCounted<AdoptedBuffer>(
        values.data() + i * bytes, bytes, [keep_alive = values] {});
    ASSIGN_OR_RETURN(Tensor tensor,
                     Tensor::FromBuffer(DType::kF32, shape, std::move(buffer)));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Lane MakeLane(int lane, const std::vector<Tensor>& tensors) {
  Lane result;
  for (size_t i = 0; i < tensors.size(); ++i) {
    result.keys.push_back(KeyText(lane, static_cast<int64_t>(i)));
    result.entries.push_back({.key = result.keys.back(), .tensor = tensors[i]});
  }
  return result;
}

absl::string_view BytesOf(const Tensor& tensor) {
  return {tensor.data(), static_cast<size_t>(tensor.size_bytes())};
}

class TensorkvLoad final : public Load {
 public:
  TensorkvLoad(const Workload& workload, pid_t server, Client* client,
               std::vector<Lane> lanes)
      : Load({.bytes_per_call = workload.bytes_per_call(),
              .keys_per_call = workload.num_keys,
              .in_flight = workload.in_flight,
              .server = server}),
        verb_(workload.verb),
        client_(client),
        lanes_(std::move(lanes)) {}

  ~TensorkvLoad() override {
    for (const Lane& lane : lanes_) {
      // The next load replaces what is left.
      client_->Delete(lane.keys, /*allow_missing=*/true).status().IgnoreError();
    }
  }

  absl::Status CreateKeys() {
    for (const Lane& lane : lanes_) {
      std::vector<InitEntry> entries;
      for (const PushEntry& entry : lane.entries) {
        entries.push_back({.key = entry.key, .tensor = entry.tensor});
      }
      RETURN_IF_ERROR(client_->Init(std::move(entries), OnExisting::kReplace));
    }
    return absl::OkStatus();
  }

  absl::Status Run(int64_t num_calls,
                   std::vector<absl::Duration>* latencies) override {
    return RunOnLanes(
        shape().in_flight, num_calls,
        [this](int lane) { return Call(lanes_[lane]); }, latencies);
  }

 private:
  absl::Status Call(const Lane& lane) {
    switch (verb_) {
      case Verb::kPush:
        return client_->Push(lane.entries).status();
      case Verb::kPull:
        return Check(client_->Pull(lane.keys), lane);
      case Verb::kPushPull:
        return Check(client_->PushPull(lane.entries), lane);
    }
    return absl::OkStatus();
  }

  static absl::Status Check(const absl::StatusOr<PullReply>& reply,
                            const Lane& lane) {
    RETURN_IF_ERROR(reply.status());
    for (size_t i = 0; i < lane.entries.size(); ++i) {
      RETURN_IF_ERROR(CheckEnds(BytesOf(lane.entries[i].tensor),
                                BytesOf(reply->values[i].tensor)));
    }
    return absl::OkStatus();
  }

  const Verb verb_;
  Client* const client_;
  const std::vector<Lane> lanes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TensorkvPeer>> TensorkvPeer::Create(
    const std::string& address, pid_t server) {
  ASSIGN_OR_RETURN(
      std::unique_ptr<Client> client,
      Client::Connect({.target = address, .timeout = kCallTimeout}));
  return std::unique_ptr<TensorkvPeer>(
      new TensorkvPeer(std::move(client), server));
}

absl::StatusOr<std::unique_ptr<Load>> TensorkvPeer::MakeLoad(
    const Workload& workload) {
  ASSIGN_OR_RETURN(const Tensor values, MakeValues(workload.bytes_per_lane()));
  ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, Split(values, workload));
  std::vector<Lane> lanes;
  for (int i = 0; i < workload.in_flight; ++i) {
    lanes.push_back(MakeLane(next_lane_++, tensors));
  }
  auto load = std::make_unique<TensorkvLoad>(workload, server_, client_.get(),
                                             std::move(lanes));
  RETURN_IF_ERROR(load->CreateKeys());
  return load;
}

}  // namespace tensorkv::bench
