#include "bench/data_path/peers/tensorkv_peer.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/payload.h"

namespace tensorkv::bench {
namespace {

// What one call is made of: its keys, and their values, which share memory.
struct Lane {
  std::vector<std::string> keys;
  std::vector<PushEntry> entries;
  PullRequest pull;
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
    result.pull.entries.push_back({.key = result.keys.back()});
  }
  return result;
}

// As of other peers, the ends of all that came: the first and the last value.
absl::Status Check(const absl::StatusOr<PullReply>& reply, const Lane& lane) {
  RETURN_IF_ERROR(reply.status());
  RETURN_IF_ERROR(CheckEnds(BytesOf(lane.entries.front().tensor),
                            BytesOf(reply->values.front().tensor)));
  return CheckEnds(BytesOf(lane.entries.back().tensor),
                   BytesOf(reply->values.back().tensor));
}

absl::Status Call(Client* client, Verb verb, Lane& lane) {
  switch (verb) {
    case Verb::kPush:
      return client->PushLent(lane.entries).status();
    case Verb::kPull:
      return Check(client->PullLent(lane.pull), lane);
    case Verb::kPushPull:
      return Check(client->PushPullLent(lane.entries), lane);
  }
  return absl::OkStatus();
}

absl::Status CreateKeys(Client* client, const Lane& lane) {
  std::vector<InitEntry> entries;
  for (const PushEntry& entry : lane.entries) {
    entries.push_back({.key = entry.key, .tensor = entry.tensor});
  }
  return client->Init(std::move(entries), OnExisting::kReplace);
}

absl::StatusOr<std::unique_ptr<Load>> MakeLoad(
    const std::shared_ptr<Client>& client, pid_t server,
    const Workload& workload, int first_lane) {
  ASSIGN_OR_RETURN(const Tensor values, MakeValues(workload.bytes_per_lane()));
  ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, Split(values, workload));
  std::vector<Lane> lanes;
  for (int i = 0; i < workload.in_flight; ++i) {
    lanes.push_back(MakeLane(first_lane + i, tensors));
    RETURN_IF_ERROR(CreateKeys(client.get(), lanes.back()));
  }
  return std::make_unique<FunctionLoad>(
      ShapeOf(workload, server),
      [client, lanes, verb = workload.verb](int lane) mutable {
        return Call(client.get(), verb, lanes[lane]);
      },
      [client, lanes] {
        for (const Lane& lane : lanes) {
          // The next load replaces what is left.
          client->Delete(lane.keys, /*allow_missing=*/true)
              .status()
              .IgnoreError();
        }
      });
}

}  // namespace

Peer TensorkvPeer(std::shared_ptr<Client> client, pid_t server) {
  return {.name = "tensorkv",
          .make_load = [client = std::move(client), server,
                        next_lane = 0](const Workload& workload) mutable {
            const int first_lane = next_lane;
            next_lane += workload.in_flight;
            return MakeLoad(client, server, workload, first_lane);
          }};
}

}  // namespace tensorkv::bench
